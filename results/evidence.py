"""What the records say, for quote.py: look-ups in results/report, verdicts and phrases."""

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from scipy.stats import ttest_ind_from_stats

from focusing.reports.figures.comparison_figures import closest_to_paper
from focusing.reports.names import SIZES
from focusing.reports.paper import published_tables
from focusing.reports.scores import ALL_DATA
from focusing.reports.tables import p_value, signed
from focusing.results.stats import holm

ROOT = Path(__file__).parent.parent
TABLES = ROOT / "results" / "report" / "tables"
SIGNIFICANT = 0.05
UNDECIDED = "open, the paper's gap is within our interval"
ARTEFACT = 100
"""A test loss that no working network has: such runs say nothing."""
CALLED = {
    "mnist": "MNIST", "clt": "cluttered MNIST", "cifar10": "CIFAR-10", "fashion": "Fashion",
    "lfw": "faces", "fsdd": "spoken digits", "catsdogs": "cats and dogs", "boston": "Boston",
    "reuters": "Reuters", "dna": "DNA", "imdb": "IMDB",
}  # fmt: skip
"""Data sets within a sentence."""
NETWORKS = {"cnn_focus": "convolutions", "vgg_focus": "VGG16"}
FOCUSED = ("fixed_s", "focus_c", "focus_s")
Row = dict[str, Any]


@cache
def table(name: str) -> list[Row]:
    """The rows of a table of the report; none if it is not there."""
    path = TABLES / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: _parsed(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _parsed(value: Any) -> Any:
    """Numbers as such, nothing as None."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value or None


def rows(name: str, **where: Any) -> list[Row]:
    """The rows of a table in which these columns have these values."""
    wanted = {key: _parsed(str(value)) for key, value in where.items()}
    return [row for row in table(name) if all(row.get(key) == wanted[key] for key in wanted)]


def row(name: str, **where: Any) -> Row:
    """The only such row; of several lengths the longest, with no options rather than some."""
    matching = rows(name, **where)
    if not matching:
        raise LookupError(f"There is no row {where} in {name}.csv.")
    return max(matching, key=lambda row: (row.get("epochs") or 0, not row.get("options")))


def first_of(name: str) -> str:
    """The table of an experiment at the largest size that was run."""
    return next(f"{name}_{size}_text" for size in SIZES if table(f"{name}_{size}_text"))


def size_of(name: str) -> str:
    """That size."""
    return f"size={name.split('_')[-2]}"


def chosen(experiment: str, data: str, model: str, series: str = "text") -> Row | None:
    """The runs of a cell of the paper that are nearest to its settings; None: there are none.

    ``published`` is the paper's difference from the dense network.

    Args:
        experiment: a table of the paper.
        data: the data set.
        model: the model.
        series: ``text``, the text's settings, ``author``, the code's, or ``holdout``.
    """
    variant = "author" if series == "author" else "text"
    every = [row for size in SIZES for row in table(f"{experiment}_{size}_{variant}")]
    same = [row for row in every if (row["data"], row["model"]) == (data, model)]
    closest = closest_to_paper(same, series)
    if closest is None:
        return None
    return {**closest, "published": published_gap(experiment, data, model)}


def published_gap(experiment: str, data: str, model: str) -> float:
    """The paper's mean of a network minus that of the dense one."""
    cells = published_tables()[experiment].cells[data]
    return cells[model].mean - cells[next(iter(cells))].mean


def significant(record: Row) -> bool:
    """After Holm's correction, and where splits overlap after the resampled test's, too."""
    ps = [record.get("p_holm"), record.get("p_resampled_holm")]
    return record.get("p_holm") is not None and all(p is None or p < SIGNIFICANT for p in ps)


def differences() -> Iterator[Row]:
    """Focused − dense of each data set in Tables 2 to 4: the paper's, ours, and a verdict.

    One row for each of the settings that were run, or a single one if none were.
    """
    for experiment, published in published_tables().items():
        for data, cells in published.cells.items():
            model, test = list(cells)[-1], published.tests[data]
            gap = published_gap(experiment, data, model)
            better = (gap > 0) != (data == "boston")
            said = "same" if test.p >= SIGNIFICANT else "better" if better else "worse"
            about = {
                "experiment": experiment, "data": data, "called": CALLED[data],
                "whole": _whole(data, model), "model": model, "published": gap, "said": said,
            }  # fmt: skip
            runs_of = {name: chosen(experiment, data, model, name) for name in ("text", "author")}
            for series, ours in runs_of.items():
                if ours or (series == "text" and not any(runs_of.values())):
                    seen, verdict = outcome(ours) if ours else None, _verdict(said, gap, ours)
                    yield about | {"series": series, "ours": ours, "seen": seen, "verdict": verdict}


def _whole(data: str, model: str) -> str:
    """A data set with its network, within a sentence."""
    network = NETWORKS.get(model)
    return f"{CALLED[data]} with {network}" if network else CALLED[data]


def _verdict(said: str, gap: float, ours: Row | None) -> str:
    """Whether the claim holds; open where runs are shorter than the paper's, or have less data.

    Also open where we see nothing, but our interval has the paper's difference in it.
    """
    if ours is None:
        return "not run"
    if artefact(ours):
        return "artefact, to be rerun"
    seen = outcome(ours)
    if seen is None:
        return "open, one run"
    words = {"same": "no difference found"}.get(seen, seen)
    if ours["minus_published"] is None:
        return f"open, so far {words}"
    if said == seen:
        return "not contradicted" if seen == "same" else "**yes**"
    if seen == "same" and ours["difference_low"] <= gap <= ours["difference_high"]:
        return UNDECIDED
    return f"**no**, {words}"


def outcome(record: Row) -> str | None:
    """``better``, ``worse`` or ``same``, of which nothing is known; None without a test."""
    if record["p_holm"] is None:
        return None
    if not significant(record):
        return "same"
    return "better" if (record["difference"] > 0) != (record["unit"] == "mae") else "worse"


def artefact(record: Row) -> bool:
    """The test loss of a classifier exploded in some epoch."""
    if record["unit"] != "percent":
        return False
    course = f"course_{record['table']}_{record['size']}_{record['variant']}"
    same = {name: record[name] for name in ("data", "model", "options") if record[name] is not None}
    return any(epoch["highest"] > ARTEFACT for epoch in rows(course, **same))


def outcomes() -> list[Row]:
    """The comparisons of :func:`differences`, with what is known of each data set in one word.

    ``ours`` is at the epoch that validation chooses where there are such runs with no other
    settings, else at the best test epoch, as in the paper. ``seen`` is better, worse, same,
    neither (the paper finds no difference, too), undecided (we see none, but the paper's is within
    our interval), or None where there are fewer than two runs, or none at the paper's size.
    """
    known = []
    for claimed in differences():
        ours = claimed["ours"]
        if claimed["series"] == "text" and ours:
            held = chosen(claimed["experiment"], claimed["data"], claimed["model"], "holdout")
            if held and (held["size"], held["options"]) == ("full", ours["options"]):
                ours = held if outcome(held) else ours
        seen = outcome(ours) if ours and ours["size"] == "full" and not artefact(ours) else None
        if seen == "same" and claimed["verdict"] == UNDECIDED:
            seen = "undecided"
        elif seen == claimed["said"] == "same":
            seen = "neither"
        known.append(claimed | {"ours": ours, "seen": seen})
    return known


def named(seen: str, series: str) -> str:
    """Data sets of that outcome with our difference and the paper's; empty: there are none."""
    return listed(
        [
            f"{known['whole']} ({_gaps(known)})"
            for known in outcomes()
            if (known["seen"], known["series"]) == (seen, series)
        ]
    )


def still_open() -> list[str]:
    """Networks and data sets without two runs at the paper's size."""
    return [*_unknown([(known, known["seen"] is not None) for known in outcomes()])]


def known_data() -> list[Row]:
    """Data sets with a comparison at the paper's size; ``text`` and ``author`` hold its rows."""
    by_name: dict[str, Row] = {}
    for known in outcomes():
        if known["seen"]:
            about = by_name.setdefault(known["whole"], {"text": None, "author": None, **known})
            about[known["series"]] = known["ours"]
    return [*by_name.values()]


def never_compared() -> list[str]:
    """Networks of Tables 2 to 4, and their data sets, without any comparison of ours."""
    return [*_unknown([(claimed, claimed["ours"] is not None) for claimed in differences()])]


def _unknown(compared: list[tuple[Row, bool]]) -> Iterator[str]:
    """Data sets of which nothing is known, together for each network."""
    known: dict[str | None, dict[str, bool]] = {}
    for claimed, is_known in compared:
        names = known.setdefault(NETWORKS.get(claimed["model"]), {})
        names[CALLED[claimed["data"]]] = names.get(CALLED[claimed["data"]], False) or is_known
    for network, names in known.items():
        unknown = [name for name in names if not names[name]]
        if network is None:
            yield from unknown
        elif len(unknown) == len(names):
            yield network
        elif unknown:
            yield f"{network} on {listed(unknown)}"


def optimism() -> dict[str, Any]:
    """By how much the best test epoch is better than validation's choice, dense and focused."""
    kinds = {"dense": ("dense",), "focused": ("focus_s", "focus_c", "focus_2d")}
    means: dict[str, Any] = {}
    for kind, models in kinds.items():
        those = [
            row for row in rows("optimism_full_text", unit="percent") if row["model"] in models
        ]
        n = sum(row["n"] for row in those)
        means[kind] = {"mean": sum(row["n"] * row["optimism"] for row in those) / n, "n": n}
    return {**means, "data": len({row["data"] for row in those})}


def local_data() -> list[str]:
    """Data sets of Tables 2 to 4 whose files cannot be compared with the official ones."""
    known = [(claimed["data"], claimed["ours"]) for claimed in differences() if claimed["ours"]]
    return list(dict.fromkeys(CALLED[data] for data, ours in known if ours["source"] == "local"))


def penalties(name: str) -> list[Row]:
    """Each penalty on sigma beside the weakest of its data set and model.

    ``difference`` and ``p``, Welch's and uncorrected, are of the scores; ``widened`` is the
    difference of the shares of foci that widened.
    """
    grouped: dict[tuple[str, str], list[Row]] = {}
    for record in rows(name, protocol="best_test"):
        strength = record["optim.sigma_l2"]
        place = {"data": record["data"], "model": record["model"], "optim.sigma_l2": strength}
        share = row(f"{name}_measured", quantity="foci widened (%)", **place)["mean"]
        about = {**record, "strength": strength, "share": share}
        grouped.setdefault((record["data"], record["model"]), []).append(about)
    compared = []
    for panel in grouped.values():
        weakest, *others = sorted(panel, key=lambda record: record["strength"])
        for other in others:
            compared.append(
                {
                    **other,
                    "p": welch_p(other, weakest),
                    "difference": other["mean"] - weakest["mean"],
                    "widened": other["share"] - weakest["share"],
                    "weakest": weakest,
                }
            )
    return compared


def learning_and_locality() -> list[Row]:
    """Data sets on which each focused simple network was trained twice or more, as in the paper.

    ``difference`` is that of Focus-s, which learns its foci, and Fixed-s, whose foci stay;
    ``p_holm`` is Welch's, corrected over all of them. Where each repeat has a split of its own,
    Welch's test is not valid, and there is none.
    """
    compared: list[Row] = []
    for data in published_tables()["table2_simple"].cells:
        for series in ("text", "author"):
            cells = [chosen("table2_simple", data, name, series) for name in FOCUSED]
            full = [cell for cell in cells if cell and cell["size"] == "full" and cell["n"] > 1]
            if len(full) == len(FOCUSED):
                fixed, _, learnt = full
                compared.append(
                    {
                        "data": data,
                        "called": CALLED[data],
                        "series": series,
                        "cells": full,
                        "unit": learnt["unit"],
                        "difference": learnt["mean"] - fixed["mean"],
                        "p": welch_p(learnt, fixed) if learnt["test"] == "Welch" else None,
                    }
                )
    corrected = holm([one["p"] for one in compared], [one["data"] for one in compared])
    tested = [one | {"p_holm": p} for one, p in zip(compared, corrected, strict=True)]
    return [one | {"outcome": outcome(one)} for one in tested]


def welch_p(one: Row, other: Row) -> float:
    """Welch's t-test of two rows of scores."""
    spreads = [row[name] for row in (one, other) for name in ("mean", "std_ddof1", "n")]
    return float(ttest_ind_from_stats(*spreads, equal_var=False).pvalue)


def _gaps(known: Row) -> str:
    """Our difference and the paper's."""
    ours = known["ours"]
    return f"{signed(ours['difference'])}{changed(ours)}, paper {signed(known['published'])}"


def changed(record: Row) -> str:
    """What runs changed of the paper's settings, in words."""
    words = " at the epoch that validation chooses" if record["protocol"] == "holdout" else ""
    if record["minus_published"] is not None:
        return words
    if record["trained_on"] != ALL_DATA:
        return f"{words} with less training data"
    if "trainer.max_epochs" in record["options"]:
        return f"{words} in {record['epochs']:.0f} epochs"
    options = record["options"].split()
    return f"{words} with `{options[0]}`" if len(options) == 1 else f"{words} with other settings"


def listed(names: list[str]) -> str:
    """A list within a sentence."""
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def interval(record: Row, digits: int = 2) -> str:
    """The interval of a difference."""
    low = record.get("difference_low", record.get("low"))
    high = record.get("difference_high", record.get("high"))
    return "" if low is None or high is None else f"{signed(low, digits)} to {signed(high, digits)}"


def with_interval(record: Row, digits: int = 1) -> str:
    """A difference with its interval, if it has one, and its runs."""
    about = "; ".join(filter(None, (interval(record, digits), runs(record))))
    return f"{signed(record['difference'], digits)} ({about})"


def off_paper(record: Row) -> float:
    """How far the difference from the dense network is from the paper's, in points."""
    return abs(record["difference"] - record["published"])


def tested(record: Row) -> str:
    """Its p, with that of the resampled test where splits overlap."""
    p = next((record[name] for name in ("p_holm", "p_paired_holm") if name in record), None)
    resampled = record.get("p_resampled_holm")
    return p_value(p) + (f", resampled {p_value(resampled)}" if resampled is not None else "")


def runs(record: Row) -> str:
    """Of how many runs, and how long."""
    count = "1 run" if record["n"] == 1 else f"{record['n']:.0f} runs"
    size = "" if record["size"] == "full" else f", size={record['size']}"
    return f"{count}, {record['epochs']:.0f} epochs{size}"
