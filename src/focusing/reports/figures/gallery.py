"""All figures of a report: PNG, SVG and the numbers in them as CSV."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib as mpl

from focusing.drawing import save_figure
from focusing.reports.figures import (
    comparison_figures,
    dynamic_figures,
    focus_figures,
    measurement_figures,
    score_figures,
    training_figures,
    weight_figures,
)
from focusing.reports.figures.chart import Chart, Charts, Damaged, Missing
from focusing.reports.tables.files import records_csv
from focusing.results.collect import Collection
from focusing.results.store import atomic_write, inside, remove
from focusing.validation import is_name

FOLDER = "figures"
INDEX = "index.json"
FAMILIES = (
    comparison_figures.forest_charts,
    focus_figures.foci_charts,
    focus_figures.movement_charts,
    comparison_figures.trial_charts,
    score_figures.table_charts,
    training_figures.loss_charts,
    weight_figures.weight_charts,
    focus_figures.path_charts,
    dynamic_figures.window_charts,
    dynamic_figures.domain_charts,
    weight_figures.aperture_charts,
    score_figures.sweep_charts,
    score_figures.setting_charts,
    measurement_figures.pruning_charts,
    measurement_figures.connection_charts,
    measurement_figures.shap_charts,
    training_figures.timing_charts,
    weight_figures.dead_input_charts,
    training_figures.optimism_charts,
    focus_figures.film_charts,
)
"""In the order of the report."""
Entry = dict[str, Any]
"""A figure, a missing one or a damaged file in the index."""


@lru_cache(maxsize=1)  # files and the page show the same ones
def all_figures(collection: Collection) -> tuple[Chart | Missing | Damaged, ...]:
    """Every figure that can be drawn, and what is missing or damaged; nothing is drawn yet."""
    figures = [figure for family in FAMILIES for figure in family(collection)]
    return tuple(_with_unique_names(figures))


def _with_unique_names(figures: Charts) -> Iterator[Chart | Missing | Damaged]:
    """Number figures that differ in nothing that is in their names, such as the source of data."""
    seen: Counter[str | Damaged] = Counter()
    for figure in figures:
        if isinstance(figure, Missing):
            yield figure
            continue
        key = figure.name if isinstance(figure, Chart) else figure
        seen[key] += 1
        if seen[key] == 1:
            yield figure
        elif isinstance(figure, Chart):  # a damaged file is reported once
            yield replace(figure, name=f"{figure.name}_{seen[key]}")


def write_figures(collection: Collection, out: Path) -> list[Path]:
    """Write ``figures/<name>.png``, ``.svg`` and ``.csv``, ``all.md`` and ``index.json``.

    A figure whose numbers, caption and title are as they were is not drawn again; figures of runs
    that are gone are removed. ``out`` is the folder of the report.
    """
    folder = inside(out, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    figures = all_figures(collection)
    before = _read_index(folder)
    index: dict[str, list[Entry]] = {"figures": [], "missing": [], "damaged": []}
    for chart in (figure for figure in figures if isinstance(figure, Chart)):
        content = records_csv(chart.rows)
        entry: Entry = {
            "name": chart.name,
            "title": chart.title,
            "caption": chart.caption,
            "tags": dict(chart.tags),
            "files": [chart.name + suffix for suffix in (*chart.suffixes, ".csv")],
        }
        entry["key"] = _digest(json.dumps(entry), content, _code_version())
        complete = all((folder / name).exists() for name in entry["files"])
        if not complete or before.get(chart.name) != entry:
            atomic_write(folder / f"{chart.name}.csv", content.encode(), sync=False)
            try:
                _draw(chart, folder)
            except OSError:
                raise
            except Exception as error:  # strange numbers, which matplotlib cannot draw
                reason = f"{type(error).__name__}: {error}"
                index["damaged"].append({"file": chart.name, "reason": reason})
                continue
        index["figures"].append(entry)
    kept = {name for entry in index["figures"] for name in entry["files"]}
    for old in before.values():
        remove(folder, set(old["files"]) - kept)
    index["missing"] = [asdict(figure) for figure in figures if isinstance(figure, Missing)]
    index["damaged"] += [asdict(figure) for figure in figures if isinstance(figure, Damaged)]
    text = json.dumps(index, indent=1, ensure_ascii=False)
    atomic_write(folder / INDEX, f"{text}\n".encode(), sync=False)
    atomic_write(folder / "all.md", _markdown(**index).encode(), sync=False)
    return [folder / name for entry in index["figures"] for name in entry["files"]]


def missing_lines(collection: Collection) -> list[str]:
    """What cannot be drawn: a line for every damaged file, and every command that makes records."""
    figures = all_figures(collection)
    titles: dict[str, list[str]] = {}
    for figure in figures:
        if isinstance(figure, Missing):
            titles.setdefault(figure.command, []).append(figure.title)
    damaged = [figure for figure in figures if isinstance(figure, Damaged)]
    return [
        *(f"Not drawn: {damage.file} {damage.reason}." for damage in damaged),
        *(f"Not drawn: {'; '.join(names)}. First: {cmd}" for cmd, names in titles.items()),
    ]


def _draw(chart: Chart, folder: Path) -> None:
    figure = chart.draw()
    if isinstance(figure, bytes):
        atomic_write(folder / (chart.name + chart.suffixes[0]), figure, sync=False)
    else:
        save_figure(figure, folder, chart.name)


def _read_index(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Figures that were drawn before, by name."""
    try:
        entries = json.loads((folder / INDEX).read_bytes())["figures"]
        return {entry["name"]: entry for entry in entries if entry["key"] and _has_files(entry)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # there is none, or it is damaged: all is drawn again


def _has_files(entry: Mapping[str, Any]) -> bool:
    files = entry["files"]
    return isinstance(files, list) and all(map(is_name, files)) and bool(files)


@lru_cache(maxsize=1)
def _code_version() -> str:
    """A digest that changes when the code of the figures does, or matplotlib."""
    here, reports, package = Path(__file__).parents[:3]
    sources = sorted([*here.glob("*.py"), *reports.glob("*.py"), *package.glob("*drawing.py")])
    return _digest(mpl.__version__, *(path.read_text() for path in sources))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _markdown(figures: Sequence[Entry], missing: Sequence[Entry], damaged: Sequence[Entry]) -> str:
    lines = ["# Figures", ""]
    for entry in figures:
        lines += [f"## {entry['title']}", "", f"![{entry['title']}]({entry['files'][0]})", ""]
        lines += [f"{entry['caption']} Numbers: `{entry['name']}.csv`.", ""]
    if missing:
        lines += ["## Not drawn: no runs yet", ""]
        lines += [f"- {entry['title']}: `{entry['command']}`" for entry in missing]
    if damaged:
        lines += ["", "## Not drawn: damaged files", ""]
        lines += [f"- {entry['file']} {entry['reason']}" for entry in damaged]
    return "\n".join([*lines, ""])
