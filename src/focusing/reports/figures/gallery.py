"""All figures of a report: PNG, SVG and the numbers in them as CSV."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from focusing.reports.figures.chart import Chart, Drawn, LeftOut, Missing
from focusing.reports.style import save
from focusing.reports.tables.files import records_csv
from focusing.results.collect import Collection
from focusing.results.store import atomic_write, inside, remove
from focusing.validation import is_name

FOLDER = "figures"
INDEX = "index.json"
FAMILIES = {
    "forest": "forest_charts",
    "foci": "foci_charts",
    "moves": "move_charts",
    "trials": "trial_charts",
    "tables": "table_charts",
    "losses": "loss_charts",
    "weights": "weight_charts",
    "fields": "field_charts",
    "sigma": "sigma_charts",
    "sweep": "sweep_charts",
    "settings": "setting_charts",
    "sparsity": "sparsity_charts",
    "connections": "connection_charts",
    "shap": "shap_charts",
    "timing": "timing_charts",
    "redundancy": "redundancy_charts",
    "optimism": "optimism_charts",
    "film": "film_charts",
}
"""Module of this folder -> its function, in the order of the report."""


@lru_cache(maxsize=1)  # files and the page show the same ones
def all_figures(collection: Collection) -> tuple[Chart | Missing | LeftOut, ...]:
    """Every figure that can be drawn, and what is missing or damaged; nothing is drawn yet."""
    found: Drawn = []
    for name, function in FAMILIES.items():
        family: Callable[[Collection], Drawn]
        family = getattr(import_module(f"focusing.reports.figures.{name}"), function)
        found += family(collection)
    return tuple(_with_own_names(found))


def _with_own_names(found: Drawn) -> Iterator[Chart | Missing | LeftOut]:
    """Number figures that differ in nothing that is in their names, such as the source of data."""
    seen: Counter[str | LeftOut] = Counter()
    for each in found:
        if isinstance(each, Missing):
            yield each
            continue
        key = each.name if isinstance(each, Chart) else each
        seen[key] += 1
        if seen[key] == 1:
            yield each
        elif isinstance(each, Chart):  # a damaged file is told once
            yield replace(each, name=f"{each.name}_{seen[key]}")


def write_figures(collection: Collection, out: Path) -> list[Path]:
    """Write ``figures/<name>.png``, ``.svg`` and ``.csv``, ``all.md`` and ``index.json``.

    A figure whose numbers, caption and title are as they were is not drawn again; figures of runs
    that are gone are removed.

    Args:
        collection: the runs.
        out: folder of the report.
    """
    folder = inside(out, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    figures = all_figures(collection)
    before = _drawn_before(folder)
    now: list[dict[str, Any]] = []
    damaged: list[dict[str, str]] = []
    for chart in (each for each in figures if isinstance(each, Chart)):
        content = records_csv(chart.rows)
        entry: dict[str, Any] = {
            "name": chart.name,
            "title": chart.title,
            "caption": chart.caption,
            "tags": dict(chart.tags),
            "files": [chart.name + suffix for suffix in (*chart.suffixes, ".csv")],
        }
        entry["key"] = _digest(json.dumps(entry), content, _drawn_by())
        whole = all((folder / name).exists() for name in entry["files"])
        if not whole or before.get(chart.name) != entry:
            atomic_write(folder / f"{chart.name}.csv", content.encode(), sync=False)
            try:
                _draw(chart, folder)
            except OSError:
                raise
            except Exception as error:  # strange numbers, which matplotlib cannot draw
                damaged.append({"file": chart.name, "reason": f"{type(error).__name__}: {error}"})
                continue
        now.append(entry)
    kept = {name for entry in now for name in entry["files"]}
    for old in before.values():
        remove(folder, set(old["files"]) - kept)
    lacking = [
        {"title": each.title, "command": each.command}
        for each in figures
        if isinstance(each, Missing)
    ]
    damaged += [vars(each) for each in figures if isinstance(each, LeftOut)]
    told = {"figures": now, "missing": lacking, "damaged": damaged}
    index = json.dumps(told, indent=1, ensure_ascii=False)
    atomic_write(folder / INDEX, f"{index}\n".encode(), sync=False)
    atomic_write(folder / "all.md", _markdown(now, lacking, damaged).encode(), sync=False)
    return [folder / name for entry in now for name in entry["files"]]


def missing_lines(collection: Collection) -> list[str]:
    """What cannot be drawn: a line for each damaged file, and each command that makes records."""
    titles: dict[str, list[str]] = {}
    for each in all_figures(collection):
        if isinstance(each, Missing):
            titles.setdefault(each.command, []).append(each.title)
    left_out = [each for each in all_figures(collection) if isinstance(each, LeftOut)]
    return [
        *(f"Not drawn: {each.file} {each.reason}." for each in left_out),
        *(f"Not drawn: {'; '.join(each)}. First: {name}" for name, each in titles.items()),
    ]


def _draw(chart: Chart, folder: Path) -> None:
    drawn = chart.draw()
    if isinstance(drawn, bytes):
        atomic_write(folder / (chart.name + chart.suffixes[0]), drawn, sync=False)
    else:
        save(drawn, folder, chart.name)


def _drawn_before(folder: Path) -> dict[str, Mapping[str, Any]]:
    try:
        entries = json.loads((folder / INDEX).read_bytes())["figures"]
        return {entry["name"]: entry for entry in entries if entry["key"] and _names(entry)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # there is none, or it is damaged: all is drawn again


def _names(entry: Mapping[str, Any]) -> bool:
    files = entry["files"]
    return isinstance(files, list) and all(map(is_name, files)) and bool(files)


@lru_cache(maxsize=1)
def _drawn_by() -> str:
    """Changes when the code of the figures does, or matplotlib."""
    import matplotlib

    here, reports, package = Path(__file__).parents[:3]
    folders = here, reports, package / "callbacks"
    sources = sorted(path for folder in folders for path in folder.glob("*.py"))
    return _digest(matplotlib.__version__, *(path.read_text() for path in sources))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _markdown(
    figures: list[dict[str, Any]], lacking: list[dict[str, str]], damaged: list[dict[str, str]]
) -> str:
    lines = ["# Figures", ""]
    for entry in figures:
        shown = entry["files"][0]
        lines += [f"## {entry['title']}", "", f"![{entry['title']}]({shown})", ""]
        lines += [f"{entry['caption']} Numbers: `{entry['name']}.csv`.", ""]
    if lacking:
        lines += ["## Not drawn: no runs yet", ""]
        lines += [f"- {each['title']}: `{each['command']}`" for each in lacking]
    if damaged:
        lines += ["", "## Not drawn: damaged files", ""]
        lines += [f"- {each['file']} {each['reason']}" for each in damaged]
    return "\n".join([*lines, ""])
