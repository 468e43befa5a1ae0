"""Load the trained network and the data of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from focusing.compose import override_data
from focusing.config import data_dir
from focusing.data import Batches, DataSet, Split
from focusing.data.batches import FITTED
from focusing.errors import DamagedError, UserError
from focusing.models import Network
from focusing.results.identity import rename_legacy_options
from focusing.results.store import finished_record
from focusing.training.checkpoint import chosen_checkpoint, load_checkpoint
from focusing.training.metrics import score
from focusing.training.trainer import (
    build_net,
    evaluation_batch,
    load_data,
    resolve_source,
    split_data,
)
from focusing.validation import (
    AT_LEAST_ONE,
    COUNT,
    LABEL,
    PROTOCOL,
    SHARE,
    TEXT,
    make_validator,
    object_schema,
)

PRUNED = "pruned.pt"
_TARGET = object_schema({"_target_": TEXT, "name": LABEL})
RUN_CONFIG = make_validator(
    object_schema(
        {
            "seed": COUNT,
            "data": _TARGET,
            "model": _TARGET,
            "optim": object_schema({"batch_size": AT_LEAST_ONE}),
            "protocol": object_schema({"name": PROTOCOL, "holdout": SHARE}),
            "paths": object_schema({"data_dir": TEXT}),
        }
    )
)
"""Checks the options of ``config.yaml`` that this module reads."""


@dataclass(frozen=True)
class Trained:
    """A trained network and its data.

    Args:
        folder: the run folder.
        config: config of the run.
        net: the network in eval mode, at the epoch chosen by the protocol of the run.
        data: the data set.
        splits: ``train``, ``test`` and, with a holdout, ``val``.
    """

    folder: Path
    config: dict[str, Any]
    net: Network
    data: DataSet
    splits: Mapping[str, Split]

    @property
    def metric(self) -> str:
        """Name of the score: ``"acc"``, or ``"mae"`` (lower is better)."""
        return "acc" if self.data.classes else "mae"

    @property
    def labels(self) -> list[str]:
        """Names of the classes; empty for regression."""
        return list(self.data.labels) or [str(k) for k in range(self.data.classes)]

    def batches(self, split: str) -> Batches:
        """Preprocessed batches of a split."""
        samples = self.splits[split]
        return Batches(samples, evaluation_batch(samples), prepare=self.data.prepare)

    @torch.no_grad()
    def scores(self, split: str, net: Network | None = None) -> dict[str, float]:
        """Loss and scores of the run's network, or of another network, on a split."""
        outputs = [(net or self.net)(batch.inputs) for batch in self.batches(split)]
        return score(outputs, [self.splits[split].targets])


def load_run(
    folder: Path, *, pruned: bool | Path = False, data_overrides: Sequence[str] = ()
) -> Trained:
    """Load a run.

    Args:
        folder: the run folder.
        pruned: load ``pruned.pt`` of ``focusing prune``, from the run folder or another one.
        data_overrides: overrides for other data, such as ``data=...`` or ``data.seed=3``. That data
            is preprocessed like the run's, unless ``data.preprocess=...`` is among them.
    """
    config = _read_config(folder)
    if pruned:
        path = (folder if pruned is True else Path(pruned)) / PRUNED
        missing = "run focusing prune first"
    else:
        path = folder / "checkpoints" / chosen_checkpoint(config)
        other = any(path.parent.glob("*.ckpt"))
        missing = "run the same command again" if other else "its first epoch has not ended"
    if not path.exists():
        raise UserError(f"{path.parent if pruned else folder} has no {path.name}: {missing}.")
    finished = finished_record(folder) is not None
    if not finished:
        print(f"Note: the run {folder} has not finished.", file=sys.stderr)
    if not Path(config["paths"]["data_dir"]).expanduser().is_dir():  # as on another machine
        config["paths"]["data_dir"] = data_dir()
    trained_on = config["data"]
    data = _other_data(config, data_overrides) if data_overrides else load_data(config)
    net = build_net(config, data, pretrained=False)
    try:
        content = load_checkpoint(path)
    except DamagedError:  # its reason is torch's, about many things
        trains = "the command that trained it" + (", with force=true," if finished else "")
        again = "focusing prune" if pruned else trains
        raise DamagedError(path, f"is damaged: {again} writes it again") from None
    try:
        state = content["state_dict"]
        net.load_state_dict({key.removeprefix("net."): value for key, value in state.items()})
    except (AttributeError, KeyError, TypeError):
        raise DamagedError(path, "is not the checkpoint of a run: it has no weights") from None
    except RuntimeError:
        raise UserError(
            f"This network was trained on {trained_on['name']}: data with {data.inputs} inputs and "
            f"{data.outputs} outputs does not fit."
            if data_overrides
            else f"{path} does not fit {folder / 'config.yaml'}."
        ) from None
    return Trained(folder, config, net.eval(), data, split_data(config, data))


def evaluate(folder: Path, overrides: Sequence[str] = ()) -> dict[str, float]:
    """Loss and scores of a trained network on test data; overrides as in :func:`load_run`."""
    scores = load_run(folder, data_overrides=overrides).scores("test")
    return {f"test/{metric}": value for metric, value in scores.items()}


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.yaml"
    try:
        config: dict[str, Any] = yaml.safe_load(path.read_bytes())
        config = rename_legacy_options(config) if isinstance(config, dict) else config
        RUN_CONFIG(config)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{folder} is not a run folder: it has no config.yaml.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise DamagedError(path, f"is not the config of a run: {reason}") from None
    return config


def _other_data(config: dict[str, Any], overrides: Sequence[str]) -> DataSet:
    """Load other data for a run, preprocessed with the statistics of its own data."""
    trained_on = config["data"]
    other = override_data(trained_on, overrides)
    overridden = any(override.startswith("data.preprocess=") for override in overrides)
    fitted = trained_on.get("preprocess") in FITTED and "preprocess" in other
    preparation = load_data(config).preparation if fitted and not overridden else None
    config["data"] = other
    resolve_source(config, strict=False)
    try:
        return load_data(config, preparation=preparation)
    except RuntimeError:
        if preparation is None:
            raise
        raise UserError(
            f"This network was trained on {trained_on['name']}: samples of {other['name']} have "
            "another shape."
        ) from None
