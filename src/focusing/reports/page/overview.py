"""The top of the page: what was run, in words and rows, and its few headline numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focusing.reports.names import DATA, MODELS, PROTOCOLS, edition, model_name
from focusing.reports.page.findings import Difference, Finding, Kept, Trials
from focusing.reports.tables import between, number, signed
from focusing.reports.tables.run_blocks import typed_options
from focusing.reports.tables.settings import UNCHANGED, settings_of
from focusing.results.collect import Collection, Run
from focusing.results.frame import FOCI, group_by, settings, varying_options
from focusing.results.stats import spread

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


Findings = Sequence[Finding]
FOCI_LEARN = "learning_to_focus"


@dataclass(frozen=True)
class Tile:
    """A number and what it says.

    Attributes:
        value: short.
        unit: behind it, small.
        words: what it is.
        detail: how sure it is, and of how many runs.
        link: where in the page there is more.
    """

    value: str
    unit: str
    words: str
    detail: str
    link: str


def tiles(
    collection: Collection, found: Findings, noise: Sequence[Trials], pruned: Sequence[Kept]
) -> list[Tile]:
    """At most one of each kind; smoke tests only where there is nothing else."""
    return [
        *_wins(found),
        *_noise(noise),
        *_foci(collection),
        *_optimism(collection),
        *_sparsity(pruned),
    ]


def _against_dense(finding: Finding) -> list[Difference]:
    rows = [row for row in finding.rows if row.shown and row.other != UNCHANGED]
    return [row for row in rows if row.source != "fake"]


def _wins(found: Findings) -> Iterator[Tile]:
    """All comparisons of the page: those of one experiment could all be wins, others losses."""
    real = {each: rows for each in found if (rows := _against_dense(each))}
    told = {each: rows for each, rows in real.items() if each.size != "smoke"} or real
    rows = [row for each in told.values() for row in each]
    if not rows:
        return
    counts = {word: sum(row.verdict == word for row in rows) for word in ("better", "worse")}
    protocols = sorted({row.protocol for row in rows})
    about = "; ".join(", ".join(filter(None, (each.experiment, each.edition))) for each in told)
    about += "; without smoke tests" if len(told) < len(real) else ""
    unclear = len(rows) - sum(counts.values())
    pairs = {(model_name(row.model), model_name(row.other)) for row in rows}
    names = pairs.pop() if len(pairs) == 1 else ("a focused network", "its dense twin")
    yield Tile(
        value=f"{counts['better']} of {len(rows)}",
        unit="",
        words=f"comparisons in which {' beats '.join(names)}",
        detail=f"{counts['worse']} worse, {unclear} unclear; {' and '.join(protocols)} "
        f"protocol, p < 0.05 after Holm ({about})",
        link="#focused",
    )


def _noise(noise: Sequence[Trials]) -> Iterator[Tile]:
    for trials in noise[:1]:
        rows = {row.label[0]: row for row in trials.rows if row.shown}
        row = list(rows.values())[-1]  # the most noise
        interval = f"[{signed(row.low)}, {signed(row.high)}], " if row.low is not None else ""
        others = [each for each in rows.values() if each.label[0].startswith("no ")]
        without = f"; without noise {signed(others[0].value)}" if others else ""
        yield Tile(
            value=signed(row.value),
            unit="points",
            words=f"{model_name(row.model)} − {model_name(row.other)}, {row.label[0]}",
            detail=f"95 % {interval}{row.count}, {row.protocol} protocol{without}"
            if interval
            else f"{row.count}, {row.protocol} protocol{without}",
            link="#noise",
        )


def _foci(collection: Collection) -> Iterator[Tile]:
    """How many foci end among the informative inputs; over many data sets, if there are any."""
    runs = [run for run in collection.runs if run.experiment == FOCI_LEARN]
    groups = group_by(runs, lambda run: (run.size, run.variant))
    for size, variant in sorted(groups, key=lambda key: edition(*key))[:1]:
        first, last = (FOCI[name][0] for name in ("inside_first", "inside_last"))
        told = [each for each in settings_of(groups[size, variant]) if last in each.measured]
        for each in sorted(told, key=lambda each: (-len(each.runs), not each.varied))[:1]:
            found = each.measured[last]
            interval = f"95 % {between(found.interval, 0)}, " if found.interval else ""
            count = "1 run" if found.n == 1 else f"{found.n} runs"
            kind = f"{count} on data of their own" if each.varied else count
            yield Tile(
                value=number(found.mean, 0),
                unit="%",
                words="of the foci end among the informative inputs, where "
                f"{number(each.measured[first].mean, 0)} % begin",
                detail=f"{interval}{kind} ({', '.join([FOCI_LEARN, *_edition(size, variant)])})",
                link=f"#table-experiment_{FOCI_LEARN}_{size}_{variant}_measured",
            )


def _edition(size: str, variant: str) -> list[str]:
    named = {"size": size, "variant": variant}
    return [f"{name} {value}" for name, value in named.items() if value != "paper"]


def _optimism(collection: Collection) -> Iterator[Tile]:
    held = [
        run
        for run in collection.runs
        if run.metric == "accuracy"
        and {"paper", "holdout"} <= run.scores.keys()
        and run.source != "fake"
    ]
    groups = group_by(held, lambda run: (run.size, run.variant, run.source))
    for size, variant, source in sorted(groups, key=lambda key: edition(*key[:2]))[:1]:
        gaps = [
            100 * (run.scores["paper"] - run.scores["holdout"])
            for run in groups[size, variant, source]
        ]
        found = spread(gaps)
        interval = between(found.interval, sign=True)
        yield Tile(
            value=signed(found.mean),
            unit="points",
            words="by which the best test epoch flatters: paper − holdout protocol",
            detail=", ".join(
                filter(
                    None, (f"95 % {interval}" if interval else "", f"{found.n} runs, {source} data")
                )
            )
            + ("" if (size, variant) == ("paper", "paper") else f", size {size}, {variant}"),
            link=f"#table-optimism_{size}_{variant}",
        )


def _sparsity(pruned: Sequence[Kept]) -> Iterator[Tile]:
    rows = [row for row in pruned if row.rule == "by focus" and row.label[1] != "fake"]
    rows.sort(key=lambda row: (row.size == "smoke", -row.gone.n))
    for row in rows[:1]:
        interval = between(row.unit.possible(row.gone.interval), 1)
        count = f"{row.gone.n} run" + ("s" if row.gone.n > 1 else "")
        yield Tile(
            value=number(row.gone.mean, 1),
            unit="%",
            words=f"of the connections of {model_name(row.model)} can go on {row.label[0]}",
            detail="at a loss of at most one point; "
            + ", ".join(filter(None, (f"95 % {interval}" if interval else "", count))),
            link="#sparsity",
        )
