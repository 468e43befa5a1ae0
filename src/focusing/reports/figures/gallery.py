"""Makes all figures of a report and writes them as PNG, SVG, PDF and CSV."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from focusing.drawing import save_figure
from focusing.reports.figures import (
    comparison_figures,
    curve_figures,
    dot_figures,
    dynamic_figures,
    focus_figures,
    measurement_figures,
    weight_figures,
)
from focusing.reports.figures.chart import Chart, Runs
from focusing.reports.report_cache import code_version
from focusing.reports.tables.files import records_csv
from focusing.results.collect import Collection
from focusing.results.frame import group_by
from focusing.results.store import atomic_write, safe_join

FOLDER = "figures"
INDEX = "index.json"


class Family(NamedTuple):
    """Figures of one kind.

    Attributes:
        charts: makes the figures.
        title: of the missing figure, if there is none of this kind.
        makes: experiment and options that make its runs.
        expected: experiment -> title of the figure that is missing without its runs.
    """

    charts: Callable[[Runs], Iterator[Chart]]
    title: str = ""
    makes: tuple[str, ...] = ()
    expected: Mapping[str, str] = {}


FAMILIES = {
    "Focused against dense": (
        Family(comparison_figures.forest_charts),
        Family(dot_figures.table_charts, expected=dot_figures.TABLE_TITLES),
        Family(comparison_figures.trial_charts, comparison_figures.TRIAL_TITLE, ("table1",)),
        Family(dot_figures.setting_charts, expected=dot_figures.SETTING_TITLES),
        Family(curve_figures.sweep_charts, expected=curve_figures.SWEEP_TITLES),
        Family(dot_figures.optimism_charts),
    ),
    "Foci": (
        Family(focus_figures.film_charts, focus_figures.FILM_TITLE, ("learning_to_focus",)),
        Family(focus_figures.foci_charts, expected=focus_figures.EXPECTED),
        Family(focus_figures.movement_charts),
        Family(focus_figures.path_charts),
        Family(weight_figures.aperture_charts, weight_figures.APERTURE_TITLE,
               ("table2_simple", "model=focus_s")),
    ),
    "Foci that follow the input": (
        Family(dynamic_figures.window_charts),
        Family(dynamic_figures.domain_charts),
    ),
    "Weights": (
        Family(weight_figures.weight_charts, weight_figures.WEIGHT_TITLE,
               ("table2_simple", "data=mnist", "model=focus_s")),
        Family(weight_figures.dead_input_charts, weight_figures.DEAD_TITLE, ("redundancy",)),
        Family(measurement_figures.shap_charts, measurement_figures.SHAP_TITLE, ("explain",)),
    ),
    "Training and cost": (
        Family(curve_figures.loss_charts, expected=curve_figures.LOSS_TITLES),
        Family(dot_figures.timing_charts, dot_figures.TIMING_TITLE, ("timing",)),
        Family(measurement_figures.pruning_charts, measurement_figures.PRUNING_TITLE,
               ("sparsity",)),
        Family(measurement_figures.connection_charts, measurement_figures.CONNECTION_TITLE,
               ("sparsity",)),
    ),
}  # fmt: skip
"""Section -> kinds of figures, in order."""
APPENDIX = "Appendix: quick runs and single runs"
Entry = dict[str, Any]
"""An entry of the index: a figure, a missing one or a damaged file."""


class Figures(NamedTuple):
    """The figures of a report, not drawn yet.

    Attributes:
        charts: the figures.
        missing: titles of figures without runs -> the commands that make the runs.
        damaged: files that could not be read -> the reasons.
    """

    charts: Sequence[Chart]
    missing: Mapping[str, str] = {}
    damaged: Mapping[str, str] = {}


@lru_cache(maxsize=1)  # files and the page show the same ones
def all_figures(collection: Collection) -> Figures:
    """Every figure that can be drawn, and what is missing or damaged; equal names are numbered."""
    runs = Runs(collection)
    charts: list[Chart] = []
    copies: Counter[str] = Counter()
    ran = {edition.experiment for edition in runs.editions}
    for section, families in FAMILIES.items():
        for family in families:
            figures = list(family.charts(runs))
            for figure in figures:
                copies[figure.name] += 1
                number = f"_{copies[figure.name]}" if copies[figure.name] > 1 else ""
                place = APPENDIX if figure.minor else section
                charts.append(replace(figure, name=f"{figure.name}{number}", section=place))
            if family.makes and not figures:
                runs.note_missing(family.title, *family.makes)
            for experiment, title in family.expected.items():
                if experiment not in ran:
                    runs.note_missing(title, experiment)
    charts.sort(key=lambda chart: chart.section == APPENDIX)  # it comes last
    return Figures(charts, runs.missing, runs.damaged)


def write_figures(
    collection: Collection, out: Path, progress: Callable[[int, int], object] | None = None
) -> list[Path]:
    """Write ``figures/<name>.png``, ``.svg``, ``.pdf`` and ``.csv``, ``all.md`` and ``index.json``.

    A figure whose numbers, title and caption did not change is not drawn again. ``progress`` is
    called with the number of finished figures and of all. Returns all files, drawn now or before.
    """
    folder = safe_join(out, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    before = _read_index(folder)
    charts, missing, damaged = all_figures(collection)
    index: dict[str, list[Entry]] = {"figures": [], "missing": [], "damaged": []}
    for number, chart in enumerate(charts):
        entry = _entry(chart)
        complete = all((folder / name).exists() for name in entry["files"])
        if not complete or before.get(chart.name) != entry:
            try:
                _draw(chart, folder)
            except OSError:
                raise
            except Exception as error:  # numbers that matplotlib cannot draw
                reason = f"{type(error).__name__}: {error}"
                index["damaged"].append({"file": chart.name, "reason": reason})
                continue
        index["figures"].append(entry)
        if progress:
            progress(number + 1, len(charts))
    index["missing"] = [{"title": title, "command": typed} for title, typed in missing.items()]
    index["damaged"] += [{"file": file, "reason": why} for file, why in damaged.items()]
    text = json.dumps(index, indent=1, ensure_ascii=False)
    atomic_write(folder / INDEX, f"{text}\n".encode(), sync=False)
    atomic_write(folder / "all.md", _markdown(**index).encode(), sync=False)
    names = [name for entry in index["figures"] for name in entry["files"]]
    return [folder / name for name in (*names, INDEX, "all.md")]


def _entry(chart: Chart) -> Entry:
    """Index entry of a figure; its key changes with everything the figure shows."""
    entry: Entry = {
        "name": chart.name,
        "title": chart.title,
        "caption": chart.caption,
        "section": chart.section,
        "tags": dict(chart.tags),
        "files": [chart.name + suffix for suffix in (*chart.suffixes, ".csv")],
    }
    texts = json.dumps(entry), records_csv(chart.rows), code_version()
    return {**entry, "key": hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]}


def _draw(chart: Chart, folder: Path) -> None:
    figure = chart.draw()
    atomic_write(folder / f"{chart.name}.csv", records_csv(chart.rows).encode(), sync=False)
    if isinstance(figure, bytes):
        atomic_write(folder / (chart.name + chart.suffixes[0]), figure, sync=False)
    else:
        save_figure(figure, folder, chart.name, chart.suffixes)


def _read_index(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Figures that were drawn before, by name."""
    try:
        entries = json.loads((folder / INDEX).read_bytes())["figures"]
        return {entry["name"]: entry for entry in entries if entry["key"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # missing or damaged: draw everything again


def _markdown(figures: Sequence[Entry], missing: Sequence[Entry], damaged: Sequence[Entry]) -> str:
    """All figures on one page, with a list of its sections."""
    sections = group_by(figures, lambda entry: entry["section"])
    lines = ["# Figures", "", "`focusing report` writes the numbers of each figure beside it.", ""]
    lines += [f"- [{section}](#{_anchor(section)})" for section in sections]
    for section, entries in sections.items():
        lines += ["", f"## {section}", ""]
        for entry in entries:
            lines += [f"### {entry['title']}", "", f"![{entry['title']}]({entry['files'][0]})", ""]
            lines += [entry["caption"], ""]
    if missing:
        lines += ["", "## Not drawn: no runs yet", ""]
        lines += [f"- {entry['title']}: `{entry['command']}`" for entry in missing]
    if damaged:
        lines += ["", "## Not drawn: damaged files", ""]
        lines += [f"- {entry['file']} {entry['reason']}" for entry in damaged]
    return "\n".join([*lines, ""])


def _anchor(title: str) -> str:
    """Anchor of a heading, as Markdown viewers make it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
