"""Runs as one tidy table: one row per run; columns for options, scores and measurements.

:func:`frame` makes the table. The other functions group its rows: they find replicates, the options
that distinguish other runs, and runs on a different version of the data.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import pandas as pd  # type: ignore[import-untyped]

from focusing.results.collect import Run
from focusing.results.identity import PASSIVE_CALLBACKS, UNHASHED_OPTIONS, UNHASHED_TRAINER_OPTIONS
from focusing.validation import iter_leaves

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Settings = Mapping[str, Any]

RUN_COLUMNS = (
    *("experiment", "size", "variant", "data", "source", "model", "protocol", "seed", "trial"),
    *("metric", "holdout", "fingerprint", "content", "config_hash", "finished"),
)
"""Columns of ``frame(runs)["run"]``: attributes of :class:`Run`."""
REPLICATE_OPTIONS = ("seed", "data.fold", "data.split_seed")
"""Options that differ between replicates of an experiment."""
EXCLUDED_OPTIONS = (*UNHASHED_OPTIONS, "protocol", "size", "variant")
"""Options that do not count as settings: without effect on scores, or columns of tables."""
TRIAL_OPTIONS = (
    *("data.n_samples", "data.informative", "data.noise", "data.noise_position", "data.clusters"),
    *("data.classes", "data.seed", "model.hidden", "optim.batch_size", "optim.lr", "optim.lr_mu"),
    *("optim.lr_sigma", "optim.l2"),
)
"""Options that are drawn at random for every trial."""
COMMON_HOLDOUT = 0.1
"""Default fraction of the validation split, which tables do not mention."""
FIRST_OPTIONS = ("data.name", "model.name", "model.dynamic.kind", "model.dynamic.centre")
"""Options that name a setting best: of windows, what moves them, not the first of all options."""
GROUP_ORDER = ("data.", "model.", "optim.", "trainer.")
DATA_SEED, VARIED = "data.seed", "varied"
"""The seed of generated data, and its value in settings where every run has its own data."""

FOCI = {
    "inside_first": ("foci inside at first (%)", 100.0),
    "inside_last": ("foci inside at last (%)", 100.0),
    "moved": ("foci moved", 1.0),
    "widened": ("foci widened (%)", 100.0),
}
"""Key in ``record["focus"]`` -> name of the measurement and factor to its unit."""
FOCI_CHANGE = "foci inside, change (points)"
FOCI_STUCK = "foci stuck (%)"
SECONDS = "seconds"


def frame(runs: Sequence[Run]) -> pd.DataFrame:
    """Make the tidy table of some runs.

    Returns:
        One row per run, indexed by the run. The columns have two levels: ``run`` (``RUN_COLUMNS``),
        ``score`` (by protocol), ``option`` (dotted names; None if a run lacks the option) and
        ``measured`` (numbers measured by callbacks).
    """
    parts = {
        "run": [{name: getattr(run, name) for name in RUN_COLUMNS} for run in runs],
        "score": [run.scores for run in runs],
        "option": [settings(run) for run in runs],
        "measured": [measurements(run) for run in runs],
    }
    index = pd.Index(runs, dtype=object)
    kinds = {"option": object}  # lists and texts beside numbers
    tables = {
        name: pd.DataFrame(rows, index, dtype=kinds.get(name)) for name, rows in parts.items()
    }
    return pd.concat(tables, axis=1)


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group items by a key; keys and items stay in the order of their first appearance."""
    groups: dict[Key, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return dict(groups)


@lru_cache(maxsize=2**14)  # called for every table and figure
def settings(run: Run) -> Settings:
    """Options of a run that can affect its score: dotted name -> value.

    The options that random trials draw are left out, because trials are replicates.
    """
    flat = flat_settings(run.config)
    if run.trial is not None:
        flat = {name: value for name, value in flat.items() if name not in TRIAL_OPTIONS}
    if run.holdout and run.holdout != COMMON_HOLDOUT:
        flat["protocol.holdout"] = run.holdout
    return flat


def flat_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a config, except its protocol, that can affect a score: dotted name -> value."""
    options = {name: value for name, value in config.items() if name not in EXCLUDED_OPTIONS}
    ignored = *REPLICATE_OPTIONS, *(f"trainer.{option}" for option in UNHASHED_TRAINER_OPTIONS)
    passive = tuple(f"callbacks.{name}." for name in PASSIVE_CALLBACKS)
    return {
        name: value
        for name, value in iter_leaves(options)
        if name not in ignored and not f"{name}.".startswith(passive)
    }


def measurements(run: Run) -> dict[str, float]:
    """All single numbers that a run measured: means over layers, fractions in percent."""
    numbers: dict[str, float] = {}
    for quantity, (name, factor) in FOCI.items():
        values = [layer[quantity] for layer in run.focus.values() if quantity in layer]
        if values:
            numbers[name] = factor * sum(values) / len(values)
        first, last = (numbers.get(FOCI[when][0]) for when in ("inside_first", "inside_last"))
        if quantity == "inside_last" and first is not None and last is not None:
            numbers[FOCI_CHANGE] = last - first
    for layer in run.focus.values():
        for quantity, value in layer.items():
            domain, _, when = quantity.removeprefix("in_").rpartition("_")
            if quantity.startswith("in_"):
                numbers[f"foci in {domain} at {when} (%)"] = 100 * value
    share = stuck_share(run)
    if share is not None:
        numbers[FOCI_STUCK] = share
    analyses = {name: value for name, value in run.measured.items() if name != "stuck"}
    for name, value in iter_leaves(analyses):
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers[name] = float(value)
    if run.seconds is not None:
        numbers[SECONDS] = run.seconds
    return numbers


def stuck_share(run: Run) -> float | None:
    """Percentage of neurons with stuck foci after training; None if they were not counted."""
    layers = (run.measured.get("stuck") or {}).values()
    neurons = sum(layer["neurons"] for layer in layers)
    return 100 * sum(len(layer["stuck"]) for layer in layers) / neurons if neurons else None


def replicate_key(run: Run) -> tuple[Any, ...]:
    """Key that distinguishes replicates; runs of two models with equal keys make a pair."""
    data = run.data_options
    data_seed = data.get("seed") if run.trial is None else None  # drawn by trials
    return run.seed, data.get("fold"), data.get("split_seed"), data_seed, run.trial


def split_key(run: Run) -> tuple[Any, ...]:
    """Key of a run's test data among its replicates: split, data seed and trial."""
    data = run.data_options
    split = None
    if data.get("split", "official") != "official":
        seed = data.get("split_seed", 0)
        split = data.get("fold"), run.seed if seed is None else seed
    data_seed = data.get("seed", 0)
    return split, run.seed if data_seed is None else data_seed, run.trial


def resampling_ratio(runs: Sequence[Run]) -> float | None:
    """Ratio of test to training samples if the runs are random splits of the same samples.

    None for other splits: folds share no test samples, and official splits are always the same.
    """
    random_splits = all(run.data_options.get("split") == "random" for run in runs)
    if not random_splits or len(set(map(split_key, runs))) < 2:
        return None
    test, train = (sum(run.sizes.get(split) or 0 for run in runs) for split in ("test", "train"))
    return test / train if train else None


def split_replicates(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Split runs into groups without duplicate replicates; usually there is only one group.

    Runs with equal settings can still differ, as in a trial that was drawn again or an option that
    was not recorded yet. No run may replace another.

    Returns:
        Name and runs of every group; the name of a single group is empty.
    """
    table = pd.DataFrame(
        {
            "replicate": [(run.model, bool(run.holdout), *replicate_key(run)) for run in runs],
            "config": [run.config_hash for run in runs],
            "finished": [run.finished for run in runs],
        },
        index=pd.Index(runs, dtype=object),
    )
    earliest_first = table.sort_values("finished", kind="stable")
    version = earliest_first.groupby("replicate")["config"].transform(_ordinal)
    groups = table.groupby(version.reindex(table.index))
    return [
        (f"config {rows['config'].min()}" if len(groups) > 1 else "", list(rows.index))
        for _, rows in groups
    ]


def data_versions(runs: Sequence[Run]) -> dict[Run, int]:
    """Number the versions of the data: 0 for most runs; 1, 2, ... if equal options gave other data.

    This happens when files are replaced between two runs. If the seed splits the data, or holds out
    a part of it, runs with different seeds have different fingerprints: then the hashes of their
    contents are compared, if the records have them.
    """

    def splits_by_seed(run: Run) -> bool:
        return run.data_options.get("split_seed", 0) is None

    ordered = sorted(runs, key=lambda run: run.finished)
    if not ordered:
        return {}
    table = pd.DataFrame(
        {
            "options": [_json([run.data_options, run.source]) for run in ordered],
            "split": [
                (run.holdout, run.seed if run.holdout or splits_by_seed(run) else None)
                for run in ordered
            ],
            "fingerprint": [run.fingerprint for run in ordered],
            "content": [run.content for run in ordered],
        }
    )
    by_split = table.groupby(["options", "split"])["fingerprint"].transform(_ordinal)
    by_content = table.groupby("options")["content"].transform(_ordinal)  # -1 without content
    return dict(zip(ordered, map(int, by_split.combine(by_content, max)), strict=True))


def _ordinal(values: Any) -> Any:
    """Number the distinct values in order of first appearance; -1 for missing values."""
    return pd.factorize(values)[0]


def with_varied_data(
    runs: Sequence[Run], flat: Mapping[Run, Settings]
) -> list[tuple[Run, Settings]]:
    """Pair runs with their settings, merging generated data sets that have only a single run.

    All runs with the seed of those single runs make up the setting ``data.seed=varied``. So a run
    may be in two settings: with other seeds on the same data, and with the same seed on other data.
    """

    def all_but_data(run: Run) -> str:
        others = {name: value for name, value in flat[run].items() if name != DATA_SEED}
        return _json([others, run.model, run.holdout])

    merged, varied = set(), []
    for same in group_by(runs, all_but_data).values():
        data_sets = group_by(same, lambda run: _json(flat[run].get(DATA_SEED)))
        singles = [members[0] for members in data_sets.values() if len(members) == 1]
        for seed, members in group_by(singles, lambda run: run.seed).items():
            if len(members) > 1:
                merged.update(members)
                varied += [run for run in same if run.seed == seed]
    return [
        *((run, flat[run]) for run in runs if run not in merged),
        *((run, {**flat[run], DATA_SEED: VARIED}) for run in varied),
    ]


def varying_options(table: Sequence[Settings], known: Sequence[str] = ()) -> list[str]:
    """Find a minimal list of options that, beyond the known ones, distinguish the settings."""
    names = {name for row in table for name in row} - set(known)
    groups = [tuple(_json(row.get(name)) for name in known) for row in table]
    varying = []
    for name in sorted(names, key=_preference):
        divided = [(*group, _json(row.get(name))) for group, row in zip(groups, table, strict=True)]
        if len(set(divided)) > len(set(groups)):
            varying.append(name)
            groups = divided
    return varying


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _preference(name: str) -> tuple[int, int, bool, str]:
    first = FIRST_OPTIONS.index(name) if name in FIRST_OPTIONS else len(FIRST_OPTIONS)
    group = next((i for i, key in enumerate(GROUP_ORDER) if name.startswith(key)), len(GROUP_ORDER))
    return first, group, name.endswith("_target_"), name  # class names last


def show_value(value: Any) -> str:
    """Format the value of an option as one types it on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(show_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
