"""Blocks of runs that may be compared, and what they changed of their experiment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from focusing.compose import config_dir, prepare_hydra
from focusing.config import USUAL
from focusing.reports.names import data_name, edition
from focusing.reports.paper import published_tables
from focusing.reports.tables import (
    Cell,
    Unit,
    text,
)
from focusing.results.collect import Run
from focusing.results.frame import (
    TRIAL_OPTIONS,
    data_versions,
    flat_settings,
    group_by,
    settings,
    show_value,
    split_replicates,
    varying_options,
)

TRIALS_EXPERIMENT = "table1"
PER_MODEL = ("data.pad",)
"""Options of the data that the author chose for the focused network alone."""
SMALLER_SIZES = ("short", "quick", "smoke")
"""Sizes that are not the paper's: less data or fewer epochs."""
UNSPECIFIED = ("optim.drop_last=",)
"""Options of which the paper says nothing: whatever they are, a run is as published."""
HARMLESS = ("data.on_missing",)
"""Options that change no result: a source that was taken instead is part of the record."""
LIMITS = ("data.limit_train", "data.limit_test", "trainer.limit_batches")
"""Options that make any experiment a smaller one."""


@dataclass(frozen=True)
class Block:
    """Runs on the same data, source, length of training and so on: what may be compared.

    Attributes:
        data: name of the data set.
        source: where the data came from; empty if there are no runs.
        version: 0, or more if the files changed between runs.
        options: what tells the block from others of its data set, as on the command line.
        models: runs by name of the model.
        as_published: its runs are those of the experiment as the paper has it, nothing changed,
            at full size.
    """

    data: str
    source: str
    version: int
    options: tuple[str, ...]
    models: Mapping[str, list[Run]]
    as_published: bool = True

    @property
    def runs(self) -> list[Run]:
        """The runs of all models."""
        return [run for runs in self.models.values() for run in runs]

    @property
    def unit(self) -> Unit:
        """How its scores are written."""
        metrics = [run.metric for run in self.runs]
        return Unit(metrics[0] if metrics else "mae" if self.data == "boston" else "accuracy")

    @property
    def epochs(self) -> int:
        """Number of epochs of the longest run."""
        trainers = [run.config.get("trainer") or {} for run in self.runs]
        return max((int(trainer.get("max_epochs") or 0) for trainer in trainers), default=0)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Which block stands for its data set: the one as published, else the longest."""
        return not self.as_published, -self.epochs, len(self.options)

    def head(self) -> Cell:
        """The cell that names it."""
        name = data_name(self.data) + (" (MAE)" if self.unit.lower_is_better else "")
        version = f"data version {self.version + 1}" if self.version else ""
        return text(name, self.source, version, *self.options)


def editions(runs: Iterable[Run]) -> Iterator[tuple[dict[str, str], list[Run]]]:
    """Experiment, size and variant, as in a CSV file, with their runs; as published first."""
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    for key in sorted(groups, key=lambda key: (key[0], *edition(*key[1:]))):
        yield dict(zip(("experiment", "size", "variant"), key, strict=True)), groups[key]


def blocks(runs: Sequence[Run]) -> list[Block]:
    """Divide runs of an experiment, of one size and variant, into blocks that may be compared."""
    versions = data_versions(runs)
    divided = []
    data_sets = group_by(runs, lambda run: (run.data, run.source, versions[run]))
    for (data, source, version), on_data in data_sets.items():
        labels = _labels(on_data)
        for options, same_options in group_by(on_data, labels.__getitem__).items():
            for mark, replicates in split_replicates(same_options):
                named = (*options, mark) if mark else options
                changed = [option for option in named if not option.startswith(UNSPECIFIED)]
                small = replicates[0].size in SMALLER_SIZES
                models = group_by(replicates, lambda run: run.model)
                as_published = source != "fake" and not changed and not small
                divided.append(Block(data, source, version, named, models, as_published))
    return divided


def _labels(runs: Sequence[Run]) -> dict[Run, tuple[str, ...]]:
    """What runs changed of their experiment; if that is not known, what tells them apart."""
    changed = {run: overrides(run) for run in runs}
    foreign = [run for run in runs if changed[run] is None]
    flat = {run: settings(run) for run in foreign}
    shared = [{k: v for k, v in row.items() if k not in PER_MODEL} for row in flat.values()]
    keys = varying_options(shared, prefix="data.") + varying_options(shared, prefix="trainer.")
    keys += varying_options(list(flat.values()), known=["model.name", *keys])
    own = {run: dict.fromkeys((*typed_options(flat[run], keys), *limits(run))) for run in foreign}
    return {run: tuple(own[run]) if run in own else changed[run] or () for run in runs}


def typed_options(flat: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, ...]:
    """Some options as they are typed; those that a model does not have are left out."""
    return tuple(f"{key}={show_value(flat[key])}" for key in keys if key in flat)


def overrides(run: Run) -> tuple[str, ...] | None:
    """Options of a run that differ from its experiment's, as they are typed.

    None if it is not known what the experiment would have: it is not the paper's.
    """
    if run.experiment not in (*published_tables(), TRIALS_EXPERIMENT):
        return None
    planned = planned_settings(run)
    if planned is None:
        return None
    if run.trial is not None:
        planned = {name: value for name, value in planned.items() if name not in TRIAL_OPTIONS}
    own = settings(run)
    changed = sorted(
        name
        for name in own
        if name not in HARMLESS and (name not in planned or own[name] != planned[name])
    )
    signs = {name: "" if name in planned or name == "protocol.holdout" else "+" for name in changed}
    removed = [
        f"~{name.removesuffix('._target_')}"
        for name in planned
        if name.startswith("callbacks.") and name.endswith("._target_") and name not in own
    ]
    return (*(f"{signs[name]}{name}={show_value(own[name])}" for name in changed), *removed)


def limits(run: Run) -> tuple[str, ...]:
    """Options that reduced the data of a run of any experiment, as they are typed."""
    if run.size in ("smoke", "quick"):  # they have limits of their own
        return ()
    own = settings(run)
    return typed_options(own, [name for name in LIMITS if own.get(name) is not None])


def planned_settings(run: Run) -> Mapping[str, Any] | None:
    """The settings of a run's experiment without any change; None if it is not known here."""
    config = composed(run.experiment, run.size, run.variant, run.data, run.model)
    return None if config is None else flat_settings(config)


@cache  # it takes 0.4 s
def composed(
    experiment: str, size: str, variant: str, data: str, model: str
) -> Mapping[str, Any] | None:
    """The config of an experiment without any change; None if it is not known here."""
    groups = {"experiment": experiment, "size": size, "variant": variant}
    groups |= {"data": data, "model": model}
    prepare_hydra()
    try:
        with initialize_config_dir(str(config_dir()), version_base="1.3"):
            config = compose("train", [f"{group}={choice}" for group, choice in groups.items()])
            return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
    except (HydraException, OmegaConfBaseException):  # a data set or network of the user's own
        return None


def command(
    experiment: str, size: str, variant: str, options: Iterable[str], protocol: str = "best_test"
) -> str:
    """What to type to fill cells of an experiment."""
    groups = {"size": size, "variant": variant, "protocol": protocol}
    changed = [f"{k}={v}" for k, v in groups.items() if v not in (USUAL[k], "unstated")]
    typed = [option for option in options if "=" in option or option.startswith("~")]
    quoted = [f"'{word}'" if any(sign in word for sign in "[]() ") else word for word in typed]
    return " ".join(["python train.py", f"experiment={experiment}", *quoted, *changed])
