"""The top of the page: what was run, in words and rows, and its few headline numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from focusing.reports.differences import Difference, Finding, Kept
from focusing.reports.names import (
    DATA,
    MEANT_TO_FAIL,
    MODELS,
    PROTOCOLS,
    SIZES,
    SMALL_SIZES,
    edition_order,
    edition_words,
    model_name,
)
from focusing.reports.page.run_page import short
from focusing.reports.plans import as_overrides
from focusing.reports.settings import editions, editions_of
from focusing.reports.tables import between, number, signed
from focusing.reports.terminal import duration
from focusing.results.collect import Collection, Run
from focusing.results.frame import FOCI, group_by, settings, varying_options
from focusing.results.stats import Interval, summarize

VERDICTS = ("better", "worse", "unclear")
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


def experiments(collection: Collection) -> list[dict[str, Any]]:
    """A row per experiment, size and variant."""
    rows = []
    for edition in editions_of([*collection.runs, *collection.failed]):
        runs = edition.runs
        done = [run for run in runs if run.status == "done"]
        rows.append(
            {
                **edition.about,
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
        "experiment": sorted({run.experiment for run in runs}),
        "size": _ordered({run.size for run in runs}, dict.fromkeys(SIZES, "")),
    }


def run_rows(runs: Sequence[Run], names: Mapping[Run, str]) -> list[list[Any]]:
    """The list of runs, which the page's script shows; short, for there may be thousands."""
    varied = run_settings(runs)
    return [
        [
            names[run],
            run.experiment,
            run.data,
            run.model,
            varied[run],
            run.size,
            run.variant,
            run.seed,
            run.metric,
            *(short(run.scores.get(protocol), DIGITS) for protocol in PROTOCOLS),
            None if run.seconds is None else round(run.seconds, 1),
            run.finished[:16].replace("T", " "),
            run.status,
        ]
        for run in runs
    ]


def run_settings(runs: Sequence[Run]) -> dict[Run, str]:
    """What distinguishes a run from others of its experiment, besides data, model and seed."""
    varied = {}
    for edition in editions_of(runs):
        flat = {run: settings(run) for run in edition.runs}
        keys = varying_options(list(flat.values()), known=["data.name", "model.name"])
        for run in edition.runs:
            options = as_overrides(flat[run], keys)
            trial = [] if run.trial is None else [f"trial {run.trial}"]
            varied[run] = ", ".join([*trial, *map(_last_part, options)])
    return varied


def _last_part(option: str) -> str:
    name, _, value = option.partition("=")
    return f"{name.rpartition('.')[2]}={value}"


def _ordered(names: set[str], order: Mapping[str, str]) -> list[str]:
    places = [*order, *sorted(names)]
    return sorted(names, key=places.index)


FOCI_LEARN = "learning_to_focus"


@dataclass(frozen=True)
class Verdict:
    """What the runs say about a claim, in a sentence.

    Attributes:
        number: what it comes down to.
        words: the rest of the sentence.
        detail: how sure it is, and of how many runs.
        link: where in the page there is more.
        tags: what it is about, for filters.
        counts: differences by verdict, if it counts them; the page counts again when it filters.
    """

    number: str
    words: str
    detail: str
    link: str
    tags: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


def verdicts(
    collection: Collection,
    differences: Sequence[Finding],
    noise: Sequence[Finding],
    pruned: Sequence[Kept],
) -> list[Verdict]:
    """At most one per claim; smoke tests only where there is nothing else."""
    return [
        *_wins(differences),
        *_noise(noise),
        *_foci(collection),
        *_sparsity(pruned),
        *_optimism(collection),
    ]


def counted(findings: Sequence[Finding]) -> dict[Finding, list[Difference]]:
    """Comparisons with dense networks that count: on real data, in experiments that may succeed."""
    rows = {
        finding: [row for row in finding.rows if row.shown and row.against_dense]
        for finding in findings
        if finding.experiment not in MEANT_TO_FAIL
    }
    real = {finding: shown for finding, shown in rows.items() if shown}
    return {finding: shown for finding, shown in real.items() if not finding.minor} or real


def _wins(differences: Sequence[Finding]) -> Iterator[Verdict]:
    """All comparisons of the page: those of one experiment could all be wins, others losses."""
    rows = [row for shown in counted(differences).values() for row in shown]
    if not rows:
        return
    counts = {word: sum(row.verdict == word for row in rows) for word in VERDICTS}
    pairs = {(model_name(row.model), model_name(row.other)) for row in rows}
    names = pairs.pop() if len(pairs) == 1 else ("a focused network", "its dense twin")
    protocols = dict.fromkeys(row.protocol for row in rows)
    yield Verdict(
        number=f"{counts['better']} of {len(rows)}",
        words=f"comparisons: {names[0]} beats {names[1]}",
        detail=f"p < 0.05 after Holm; protocol {' or '.join(protocols)}; without quick runs and "
        "experiments that are meant to fail",
        link="#focused",
        counts=counts,
    )


def _noise(noise: Sequence[Finding]) -> Iterator[Verdict]:
    for trials in noise[:1]:
        rows = {row.label[0]: row for row in trials.rows if row.shown}
        row = list(rows.values())[-1]  # the most noise
        clean = [row for label, row in rows.items() if label.startswith("no ")]
        without = f"; without noise {signed(clean[0].value)}" if clean else ""
        yield Verdict(
            number=f"{signed(row.value)} points",
            words=f"for {model_name(row.model)} over {model_name(row.other)} with {row.label[0]}"
            f"{without}",
            detail=_listed(_sure(row.interval, sign=True), row.count, f"protocol {row.protocol}"),
            link="#noise",
            tags={"experiment": trials.experiment, "size": trials.size, "data": "synthetic"},
        )


def _foci(collection: Collection) -> Iterator[Verdict]:
    """How many foci end among the informative inputs; over many data sets, if there are any."""
    for edition in [one for one in editions(collection) if one.experiment == FOCI_LEARN][:1]:
        size, variant = edition.size, edition.variant
        first, last = (FOCI[name][0] for name in ("inside_first", "inside_last"))
        inside = [one for one in edition.settings if last in one.measured]
        for setting in sorted(inside, key=lambda one: (-len(one.runs), not one.varied))[:1]:
            share = setting.measured[last]
            own = " on data of their own" if setting.varied else ""
            about = _listed(FOCI_LEARN.replace("_", " "), *edition_words(size, variant))
            yield Verdict(
                number=f"{number(share.mean, 0)} %",
                words="of the foci end among the informative inputs, where "
                f"{number(setting.measured[first].mean, 0)} % begin",
                detail=_listed(_sure(share.interval, 0), f"{_runs(share.n)}{own} ({about})"),
                link=f"#table-experiment_{FOCI_LEARN}_{size}_{variant}_measured",
                tags={"experiment": FOCI_LEARN, "size": size, "data": "synthetic"},
            )


def _sparsity(pruned: Sequence[Kept]) -> Iterator[Verdict]:
    rows = [row for row in pruned if row.rule == "by focus" and row.label[1] != "fake"]
    rows.sort(key=lambda row: (row.size in SMALL_SIZES, -row.gone.n))
    for row in rows[:1]:
        yield Verdict(
            number=f"{number(row.gone.mean, 1)} %",
            words=f"of the connections of {model_name(row.model)} can go on {row.label[0]}",
            detail="at a loss of at most one point; "
            + _listed(_sure(row.gone.interval, 1), _runs(row.gone.n)),
            link="#sparsity",
            tags={"experiment": row.experiment, "size": row.size, "data": row.data},
        )


def _optimism(collection: Collection) -> Iterator[Verdict]:
    held = [
        run
        for run in collection.runs
        if run.metric == "accuracy"
        and {"best_test", "holdout"} <= run.scores.keys()
        and run.source != "fake"
    ]
    groups = group_by(held, lambda run: (run.size, run.variant, run.source))
    order = sorted(groups, key=lambda key: (edition_order(*key[:2]), -len(groups[key])))
    for size, variant, source in order[:1]:
        runs = groups[size, variant, source]
        optimism = summarize([100 * (r.scores["best_test"] - r.scores["holdout"]) for r in runs])
        about = f"{source} data", *edition_words(size, variant)
        named = dict.fromkeys(run.experiment for run in runs)  # in the order of the runs
        yield Verdict(
            number=f"{signed(optimism.mean)} points",
            words="is by how much the best test epoch flatters, as against held-out data",
            detail=_listed(_sure(optimism.interval, sign=True), f"{optimism.n} runs", *about),
            link=f"#table-optimism_{size}_{variant}",
            tags={"experiment": " ".join(named), "size": size},
        )


def _listed(*words: str) -> str:
    """Words with commas; empty ones are left out."""
    return ", ".join(filter(None, words))


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _sure(interval: Interval | None, digits: int = 2, *, sign: bool = False) -> str:
    return f"95 % {between(interval, digits, sign=sign)}" if interval else ""
