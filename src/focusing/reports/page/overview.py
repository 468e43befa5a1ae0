"""What was run, in words and as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from focusing.reports.names import DATA, MODELS, PROTOCOLS, edition
from focusing.reports.tables.run_blocks import typed_options
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by, settings, varying_options

DIGITS = 6
"""Of scores in the list of runs."""


def lead(collection: Collection) -> dict[str, Any]:
    """Numbers of the first sentence."""
    runs = collection.runs
    finished = sorted(run.finished[:10] for run in runs if run.finished)
    return {
        "runs": len(runs),
        "failed": len(collection.failed),
        "unreadable": len(collection.unreadable),
        "repeated": collection.repeated,
        "experiments": len({run.experiment for run in runs}),
        "data": len({run.data for run in runs}),
        "models": len({run.model for run in runs}),
        "time": duration(sum(run.seconds or 0 for run in runs)),
        "from": finished[0] if finished else "",
        "to": finished[-1] if finished else "",
        "only_smoke": bool(runs) and all(run.size == "smoke" for run in runs),
    }


def duration(seconds: float) -> str:
    """A time in two words."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{seconds / 3600:.1f} h"


def experiments(collection: Collection) -> list[dict[str, Any]]:
    """A row for each experiment, size and variant."""
    every = [*collection.runs, *collection.failed]
    groups = group_by(every, lambda run: (run.experiment, run.size, run.variant))
    rows = []
    for key in sorted(groups, key=lambda key: (key[0], *edition(*key[1:]))):
        runs = groups[key]
        done = [run for run in runs if run.status == "done"]
        rows.append(
            {
                "experiment": key[0],
                "size": key[1],
                "variant": key[2],
                "runs": len(done),
                "failed": len(runs) - len(done),
                "data": _ordered({run.data for run in runs}, DATA),
                "models": _ordered({run.model for run in runs}, MODELS),
                "seeds": len({run.seed for run in runs}),
                "protocols": _ordered({run.protocol for run in runs}, dict.fromkeys(PROTOCOLS, "")),
                "time": duration(sum(run.seconds or 0 for run in done)),
            }
        )
    return rows


def choices(collection: Collection) -> dict[str, list[str]]:
    """What can be chosen by filters."""
    runs = [*collection.runs, *collection.failed]
    scored = {name for run in runs for name in run.scores}
    return {
        "data": _ordered({run.data for run in runs}, DATA),
        "model": _ordered({run.model for run in runs}, MODELS),
        "protocol": [name for name in PROTOCOLS if name in scored],
    }


def run_rows(runs: Sequence[Run], names: Mapping[Run, str]) -> list[list[Any]]:
    """The list of runs, which the page's script shows; short, for there may be thousands."""
    told = run_settings(runs)
    return [
        [
            names[run],
            run.experiment,
            run.data,
            run.model,
            told[run],
            run.size,
            run.variant,
            run.seed,
            run.metric,
            *(_rounded(run.scores.get(protocol)) for protocol in PROTOCOLS),
            None if run.seconds is None else round(run.seconds, 1),
            run.finished[:16].replace("T", " "),
            run.status,
        ]
        for run in runs
    ]


def run_settings(runs: Sequence[Run]) -> dict[Run, str]:
    """What tells a run from others of its experiment, besides data, model and seed."""
    found = {}
    for same in group_by(runs, lambda run: (run.experiment, run.size, run.variant)).values():
        flat = {run: settings(run) for run in same}
        keys = varying_options(list(flat.values()), known=["data.name", "model.name"])
        for run in same:
            told = typed_options(flat[run], keys)
            number = [] if run.trial is None else [f"trial {run.trial}"]
            found[run] = ", ".join([*number, *map(_last_part, told)])
    return found


def _last_part(option: str) -> str:
    name, _, value = option.partition("=")
    return f"{name.rpartition('.')[2]}={value}"


def _rounded(score: float | None) -> float | None:
    return None if score is None else float(f"{score:.{DIGITS}g}")


def _ordered(names: set[str], order: Mapping[str, str]) -> list[str]:
    places = [*order, *sorted(names)]
    return sorted(names, key=places.index)
