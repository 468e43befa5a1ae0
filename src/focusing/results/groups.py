"""Which runs are repeats of one another, and what tells the others apart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from focusing.results.identity import IRRELEVANT, IRRELEVANT_TO_TRAINER, ONLOOKERS
from focusing.results.run import Run

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Settings = Mapping[str, Any]

REPEATS = ("seed", "data.fold", "data.split_seed")
"""Options in which repeats of an experiment differ."""
NO_SETTING = (*IRRELEVANT, "protocol", "size", "variant")
"""Options that are columns or sections of tables, or change nothing."""
DRAWN = {
    "data": ("n_samples", "informative", "noise", "noise_position", "clusters", "classes", "seed"),
    "model": ("hidden",),
    "optim": ("batch_size", "lr", "lr_mu", "lr_sigma", "l2"),
}
"""Options that a random trial draws."""
FIRST = ("data.name", "model.name")
ORDER = ("data.", "model.", "optim.", "trainer.")


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by a key, both in the order of their appearance."""
    groups: dict[Key, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return dict(groups)


def settings(run: Run) -> dict[str, Any]:
    """The options of a run that may make its score another: dotted name -> plain value.

    Those that a random trial draws are left out: trials are repeats of each other.
    """
    flat = flat_settings(run.config)
    if trial(run) is not None:
        for name in (f"{group}.{name}" for group, names in DRAWN.items() for name in names):
            flat.pop(name, None)
    if run.holdout and run.holdout != 0.1:  # the common share needs no mention
        flat["protocol.holdout"] = run.holdout
    return flat


def flat_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same of any config, whatever its protocol."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if name not in NO_SETTING:
            _flatten(name, value, flat)
    for name in (*REPEATS, *(f"trainer.{each}" for each in IRRELEVANT_TO_TRAINER)):
        flat.pop(name, None)
    watched = tuple(f"callbacks.{name}." for name in ONLOOKERS)
    return {name: value for name, value in flat.items() if not f"{name}.".startswith(watched)}


def split_repeats(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Parts in which each repeat is there once, each with a mark; one part, without, as a rule.

    Runs may differ in what no option tells: a trial that was drawn anew, an option that was not
    yet recorded. None may replace another.
    """
    seen: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    places = {}
    for run in sorted(runs, key=lambda each: each.finished):
        hashes = seen[(run.model, bool(run.holdout), *repeat(run))]
        if run.config_hash not in hashes:
            hashes.append(run.config_hash)
        places[run] = hashes.index(run.config_hash)
    parts = group_by(sorted(runs, key=places.__getitem__), places.__getitem__)
    return [
        (f"config {min(run.config_hash for run in part)}" if len(parts) > 1 else "", part)
        for part in parts.values()
    ]


def repeat(run: Run) -> tuple[Any, ...]:
    """What tells repeats of a run apart; equal for the runs of two models that make a pair."""
    data, number = run.config.get("data") or {}, trial(run)
    drawn = data.get("seed") if number is None else None  # a trial draws it
    return run.seed, data.get("fold"), data.get("split_seed"), drawn, number


def trial(run: Run) -> int | None:
    """Number of the random trial; None for other runs."""
    number: int | None = (run.config.get("sweep") or {}).get("trial")
    return number


def tested_on(run: Run) -> tuple[Any, ...]:
    """What chose the run's test data among those of its repeats: fold, split, seed or trial."""
    data = run.config.get("data") or {}
    split = None
    if data.get("split", "official") != "official":
        seed = data.get("split_seed", 0)
        split = data.get("fold"), run.seed if seed is None else seed
    drawn = data.get("seed", 0)
    drawn = run.seed if drawn is None else drawn
    return split, drawn, trial(run)


def overlap(runs: Sequence[Run]) -> float | None:
    """Test samples for each training sample, if repeats are random splits, which share samples.

    Folds share no test samples, and official splits are the same in all repeats: None for these.
    """
    drawn = [run for run in runs if (run.config.get("data") or {}).get("split") == "random"]
    if len(drawn) < len(runs) or len(set(map(tested_on, runs))) < 2:
        return None
    test, train = (sum(run.sizes.get(split) or 0 for run in runs) for split in ("test", "train"))
    return test / train if train else None


def telling(table: Sequence[Settings], given: Sequence[str] = (), among: str = "") -> list[str]:
    """Options that tell settings apart, none of which follows from those before it.

    Args:
        table: the settings.
        given: options that are known anyway.
        among: only options whose name begins so.
    """
    found: list[str] = []
    names = {name for each in table for name in each if name.startswith(among)}
    parts = list(group_by(table, lambda each: _values(each, given)).values())
    for name in sorted(names - set(given), key=_preference):
        by_value = partial(_value, name)
        split = [part for each in parts for part in group_by(each, by_value).values()]
        if len(split) > len(parts):
            found.append(name)
            parts = split
    return found


def data_versions(runs: Iterable[Run]) -> dict[Run, int]:
    """0 for each run; 1, 2, ... where the same data options led to other data.

    That happens when files are replaced between two runs. Runs with different seeds have different
    fingerprints if the seed splits the data, or keeps a part of it out of the statistics that scale
    it: of these the content tells, where the record has it.
    """
    seen: dict[str, list[str]] = defaultdict(list)
    versions = {}
    for run in sorted(runs, key=lambda each: each.finished):
        options = run.config.get("data") or {}
        by_seed = run.holdout or options.get("split_seed", 0) is None
        alike = [options, run.source]
        marks = [([*alike, run.holdout, run.seed if by_seed else None], run.fingerprint)]
        marks += [(alike, run.content)] if run.content else []
        versions[run] = max(
            _place(mark, seen[json.dumps(key, sort_keys=True)]) for key, mark in marks
        )
    return versions


def _place(mark: str, known: list[str]) -> int:
    if mark not in known:
        known.append(mark)
    return known.index(mark)


def show_value(value: Any) -> str:
    """An option's value as it is typed on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(show_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _flatten(name: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, Mapping) and value:
        for key, below in value.items():
            _flatten(f"{name}.{key}", below, into)
    else:
        into[name] = value


def _preference(name: str) -> tuple[int, int, bool, str]:
    first = FIRST.index(name) if name in FIRST else len(FIRST)
    group = next((i for i, each in enumerate(ORDER) if name.startswith(each)), len(ORDER))
    return first, group, name.endswith("_target_"), name  # a class tells a reader least


def _value(name: str, settings: Settings) -> str:
    return json.dumps(settings.get(name), sort_keys=True)


def _values(settings: Settings, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(_value(name, settings) for name in names)
