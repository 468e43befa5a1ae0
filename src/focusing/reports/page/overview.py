"""Top of the page: what was run, the verdicts, and the list of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from focusing.reports.differences import Difference, Finding, PruningResult
from focusing.reports.figures.chart import join_distinct
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
    plural,
)
from focusing.reports.page.run_page import short
from focusing.reports.plans import as_overrides
from focusing.reports.settings import editions, editions_of
from focusing.reports.tables import format_interval, number, signed
from focusing.reports.terminal import duration
from focusing.results.collect import Collection, Run
from focusing.results.frame import FOCI, group_by, settings, varying_options
from focusing.results.stats import Interval, summarize

VERDICTS = ("better", "worse", "unclear")
DIGITS = 6
"""Significant digits of scores in the list of runs."""


def lead(collection: Collection) -> dict[str, Any]:
    """Numbers of the opening sentence."""
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
    """Rows of the table of experiments, one per edition."""
    rows = []
    for edition in editions_of([*collection.runs, *collection.failed]):
        runs = edition.runs
        done = [run for run in runs if run.status == "done"]
        rows.append(
            {
                **edition.columns,
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
    """Values of the filters."""
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
    """Rows of the list of runs, for the script of the page; compact, as there may be thousands."""
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
    """Options that distinguish a run from others of its edition, besides data, model and seed."""
    varied = {}
    for edition in editions_of(runs):
        flat = {run: settings(run) for run in edition.runs}
        keys = varying_options(list(flat.values()), known=["data.name", "model.name"])
        for run in edition.runs:
            options = as_overrides(flat[run], keys)
            short_names = [re.sub(r"^[^=]*\.", "", option) for option in options]
            trial = [] if run.trial is None else [f"trial {run.trial}"]
            varied[run] = ", ".join([*trial, *short_names])
    return varied


def _ordered(names: set[str], order: Mapping[str, str]) -> list[str]:
    places = [*order, *sorted(names)]
    return sorted(names, key=places.index)


FOCI_LEARN = "learning_to_focus"


@dataclass(frozen=True)
class Verdict:
    """What the runs say about a claim, as one sentence.

    Attributes:
        number: the headline number.
        words: the rest of the sentence.
        detail: interval and number of runs.
        link: anchor in the page with details.
        tags: for filters.
        counts: differences by verdict, if it counts them; the page's filters count again.
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
    pruned: Sequence[PruningResult],
) -> list[Verdict]:
    """At most one verdict per claim; small sizes count only if there is nothing else."""
    claims = (
        _wins(differences),
        _noise(noise),
        _foci(collection),
        _sparsity(pruned),
        _optimism(collection),
    )
    return [verdict for verdict in claims if verdict is not None]


def counted(findings: Sequence[Finding]) -> dict[Finding, list[Difference]]:
    """Comparisons with dense networks that count, by finding.

    They are on real data, and not of experiments that are meant to fail.
    """
    rows = {
        finding: [row for row in finding.rows if row.shown and row.against_dense]
        for finding in findings
        if finding.experiment not in MEANT_TO_FAIL
    }
    real = {finding: shown for finding, shown in rows.items() if shown}
    return {finding: shown for finding, shown in real.items() if not finding.minor} or real


def _wins(differences: Sequence[Finding]) -> Verdict | None:
    """The count covers all comparisons of the page, not only those of a favourable experiment."""
    rows = [row for shown in counted(differences).values() for row in shown]
    if not rows:
        return None
    counts = {word: sum(row.verdict == word for row in rows) for word in VERDICTS}
    pairs = {(model_name(row.model), model_name(row.other)) for row in rows}
    names = pairs.pop() if len(pairs) == 1 else ("a focused network", "its dense twin")
    protocols = dict.fromkeys(row.protocol for row in rows)
    return Verdict(
        number=f"{counts['better']} of {len(rows)}",
        words=f"comparisons: {names[0]} beats {names[1]}",
        detail=f"p < 0.05 after Holm; protocol {' or '.join(protocols)}; without quick runs and "
        "experiments that are meant to fail",
        link="#focused",
        counts=counts,
    )


def _noise(noise: Sequence[Finding]) -> Verdict | None:
    if not noise:
        return None
    trials = noise[0]
    rows = {row.label[0]: row for row in trials.rows if row.shown}
    row = list(rows.values())[-1]  # the most noise
    clean = [row for label, row in rows.items() if label.startswith("no ")]
    without = f"; without noise {signed(clean[0].value)}" if clean else ""
    models = f"{model_name(row.model)} over {model_name(row.other)}"
    return Verdict(
        number=f"{signed(row.value)} points",
        words=f"for {models} with {row.label[0]}{without}",
        detail=_join(_ci(row.interval, sign=True), row.count, f"protocol {row.protocol}"),
        link="#noise",
        tags={"experiment": trials.experiment, "size": trials.size, "data": "synthetic"},
    )


def _foci(collection: Collection) -> Verdict | None:
    """Share of the foci that end among the informative inputs, preferably over many data sets."""
    known = [edition for edition in editions(collection) if edition.experiment == FOCI_LEARN]
    first, last = (FOCI[name][0] for name in ("inside_first", "inside_last"))
    inside = [setting for setting in known[0].settings if last in setting.measured] if known else []
    if not inside:
        return None
    setting = min(inside, key=lambda one: (-len(one.runs), not one.varied))
    share = setting.measured[last]
    size, variant = known[0].size, known[0].variant
    runs = plural(share.n, "run") + (" on data of their own" if setting.varied else "")
    edition = _join(FOCI_LEARN.replace("_", " "), *edition_words(size, variant))
    return Verdict(
        number=f"{number(share.mean, 0)} %",
        words="of the foci end among the informative inputs, where "
        f"{number(setting.measured[first].mean, 0)} % begin",
        detail=_join(_ci(share.interval, 0), f"{runs} ({edition})"),
        link=f"#table-experiment_{FOCI_LEARN}_{size}_{variant}_measured",
        tags={"experiment": FOCI_LEARN, "size": size, "data": "synthetic"},
    )


def _sparsity(pruned: Sequence[PruningResult]) -> Verdict | None:
    rows = [row for row in pruned if row.rule == "by focus" and row.label[1] != "fake"]
    if not rows:
        return None
    row = min(rows, key=lambda row: (row.size in SMALL_SIZES, -row.dropped.n))
    interval = _join(_ci(row.dropped.interval, 1), plural(row.dropped.n, "run"))
    return Verdict(
        number=f"{number(row.dropped.mean, 1)} %",
        words=f"of the connections of {model_name(row.model)} can go on {row.label[0]}",
        detail=f"at a loss of at most one point; {interval}",
        link="#sparsity",
        tags={"experiment": row.experiment, "size": row.size, "data": row.data},
    )


def _optimism(collection: Collection) -> Verdict | None:
    held = [
        run
        for run in collection.runs
        if run.metric == "accuracy"
        and {"best_test", "holdout"} <= run.scores.keys()
        and run.source != "fake"
    ]
    groups = group_by(held, lambda run: (run.size, run.variant, run.source))
    if not groups:
        return None
    key = min(groups, key=lambda key: (edition_order(*key[:2]), -len(groups[key])))
    (size, variant, source), runs = key, groups[key]
    optimism = summarize([100 * (r.scores["best_test"] - r.scores["holdout"]) for r in runs])
    where = f"{source} data", *edition_words(size, variant)
    return Verdict(
        number=f"{signed(optimism.mean)} points",
        words="is by how much the best test epoch flatters, against the one validation chooses",
        detail=_join(_ci(optimism.interval, sign=True), f"{optimism.n} runs", *where),
        link=f"#table-optimism_{size}_{variant}",
        tags={"experiment": join_distinct(run.experiment for run in runs), "size": size},
    )


def _join(*words: str) -> str:
    return ", ".join(filter(None, words))


def _ci(interval: Interval | None, digits: int = 2, *, sign: bool = False) -> str:
    return f"95 % {format_interval(interval, digits, sign=sign)}" if interval else ""
