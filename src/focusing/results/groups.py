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
    flat: dict[str, Any] = {}
    for name, value in run.config.items():
        if name not in NO_SETTING:
            _flatten(name, value, flat)
    dropped = [*REPEATS, *(f"trainer.{each}" for each in IRRELEVANT_TO_TRAINER)]
    if trial(run) is not None:
        dropped += [f"{group}.{name}" for group, names in DRAWN.items() for name in names]
    for name in dropped:
        flat.pop(name, None)
    watched = tuple(f"callbacks.{name}." for name in ONLOOKERS)
    flat = {name: value for name, value in flat.items() if not name.startswith(watched)}
    if run.holdout and run.holdout != 0.1:  # the common share needs no mention
        flat["protocol.holdout"] = run.holdout
    return flat


def repeat(run: Run) -> tuple[Any, ...]:
    """What tells repeats of a run apart; equal for the runs of two models that make a pair."""
    data = run.config.get("data") or {}
    return run.seed, data.get("fold"), data.get("split_seed"), trial(run)


def trial(run: Run) -> int | None:
    """Number of the random trial; None for other runs."""
    number: int | None = (run.config.get("sweep") or {}).get("trial")
    return number


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
    data if the seed splits it, or keeps a part of it out of the statistics that scale it.
    """
    seen: dict[str, list[str]] = defaultdict(list)
    versions = {}
    for run in sorted(runs, key=lambda each: each.finished):
        options = run.config.get("data") or {}
        by_seed = run.holdout or options.get("split_seed", 0) is None
        key = [options, run.source, run.holdout, run.seed if by_seed else None]
        places = seen[json.dumps(key, sort_keys=True)]
        if run.fingerprint not in places:
            places.append(run.fingerprint)
        versions[run] = places.index(run.fingerprint)
    return versions


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
            if key != "_target_":
                _flatten(f"{name}.{key}", below, into)
    else:
        into[name] = value


def _preference(name: str) -> tuple[int, int, str]:
    first = FIRST.index(name) if name in FIRST else len(FIRST)
    group = next((i for i, each in enumerate(ORDER) if name.startswith(each)), len(ORDER))
    return first, group, name


def _value(name: str, settings: Settings) -> str:
    return json.dumps(settings.get(name), sort_keys=True)


def _values(settings: Settings, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(_value(name, settings) for name in names)
