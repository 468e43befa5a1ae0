"""Terminal output: a network before training, the summary of a run, tables."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from focusing.errors import UserError, printable
from focusing.reports.names import dense_twin
from focusing.results.collect import UNSTATED
from focusing.results.store import ARCHIVE, read_record

if TYPE_CHECKING:
    from focusing.models import Network
    from focusing.nn import FocusedLinear
    from focusing.reports.tables import Cell, Table

MAX_ROWS = 40
"""Most rows of a table; the report has all."""
PROTOCOL_MEANINGS = {
    "best_test": "best test epoch, as in the paper",
    "holdout": "test at the best validation epoch",
    "last": "test after the last epoch",
}


def show(args: argparse.Namespace) -> None:
    """``focusing show``: print the summary of the run ``args.run``, or list the runs below it."""
    record, console = read_record(args.run), Console(soft_wrap=True)
    if record is not None:
        console.print(summary(record, args.run))
        for figure in sorted(args.run.glob("figures/*.png")):
            console.print(str(figure), markup=False)
    elif (args.run / "config.yaml").exists():
        raise UserError(f"{args.run} is {_progress(args.run)}; the same command resumes it.")
    else:
        for line in _list_runs(args.run):
            console.print(line, markup=False, highlight=False)


def _list_runs(folder: Path) -> Iterator[str]:
    """A table of the runs below a folder, the newest last."""
    paths = [path.relative_to(folder) for path in folder.rglob("config.yaml")]
    runs = [folder / path.parent for path in paths if not any(p[0] == "." for p in path.parts)]
    if not runs:
        here = f"{folder} is not a run folder, and there are no runs below it"
        if any(folder.rglob(ARCHIVE)):
            raise UserError(f"{here}, but archived records: focusing report {folder} reads them.")
        raise UserError(f"{here}.")
    runs.sort(key=lambda run: ((run / "config.yaml").stat().st_mtime, run))
    rows = [("folder", "experiment", "data", "model", "seed", "score"), *map(_row, runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _row(run: Path) -> tuple[str, ...]:
    """Folder, experiment, data, model, seed and score of a run."""
    try:
        record = read_record(run)
        config = record["config"] if record else yaml.safe_load((run / "config.yaml").read_bytes())
        names = config["name"], config["data"]["name"], config["model"]["name"], config["seed"]
        if record is None:
            score = _progress(run)
        elif record["status"] == "done":
            value = record["scores"][config["protocol"]["name"]]["value"]
            score = f"{100 * value:.2f} %" if record["metric"] == "accuracy" else f"{value:.4g}"
        else:
            score = record["status"]
    except (UserError, yaml.YAMLError, KeyError, TypeError):
        return str(run), "", "", "", "", "damaged"
    return str(run), *(printable(str(name)) for name in names), score


def _progress(run: Path) -> str:
    """How far an unfinished run is; its metrics have a line per epoch, and a header."""
    try:
        epochs = yaml.safe_load((run / "config.yaml").read_bytes())["trainer"]["max_epochs"]
        lines = (run / "metrics.csv").read_bytes().count(b"\n")
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return "not finished"
    return f"not finished: {max(0, lines - 1)} of {epochs} epochs"


def summary(record: Mapping[str, Any], folder: Path) -> Group:
    """Summary of a run as a table: data, model, scores, foci, cost; and its folder."""
    status = {"failed": "  [red]failed[/red]", "pruned": "  [yellow]pruned[/yellow]"}
    grid = Grid(box=SIMPLE_HEAD, show_header=True, pad_edge=False, title_justify="left")
    grid.add_column(escape(record["experiment"]), style="dim", no_wrap=True)
    grid.add_column(f"seed {record['seed']}{status.get(record['status'], '')}", overflow="fold")
    for name, value in _facts(record):
        grid.add_row(name, value)
    return Group(grid, f"[dim]folder[/]   {escape(str(folder))}")  # a table would break the path


def _facts(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if record.get("error"):
        yield "error", f"[red]{escape(record['error'])}[/red]"
    if data := record.get("data"):  # a run may fail before it has any
        sizes = [f"{data[split]} {split}" for split in ("train", "val", "test") if data.get(split)]
        source = data.get("source", UNSTATED)
        yield "data", escape(f"{data['name']} from {source}: {', '.join(sizes)}")
    count = (record.get("network") or {}).get("parameters")
    parameters = f", {count:,} parameters" if count else ""
    yield "model", escape(record["config"]["model"]["name"]) + parameters
    yield from _scores(record)
    for layer, path in (record.get("focus") or {}).items():
        values = [path.get(key) for key in ("moved", "sigma_first", "sigma_last")]
        if None not in values:
            words = "moved {:.3f} on average, sigma {:.3f} to {:.3f}".format(*values)
            yield f"foci of {escape(layer)}", words
    if cost := _cost(record):
        yield "cost", cost


def _scores(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    metric, factor, unit, digits = record.get("metric"), 1, "", ".4g"
    if metric == "accuracy":
        factor, unit, digits = 100, " %", ".2f"
    scores = {name: score for name, score in record["scores"].items() if score}
    for name, score in scores.items():
        value = f"[bold]{factor * score['value']:{digits}}{unit}[/bold]"
        epoch = score["epoch"] + 1  # counted from 0 in records, from 1 for people
        meaning = f"[dim]{PROTOCOL_MEANINGS.get(name, '')}[/dim]"
        yield escape(f"{metric} ({name})"), f"{value} at epoch {epoch}  {meaning}"
    if {"best_test", "holdout"} <= scores.keys():
        gap = factor * (scores["best_test"]["value"] - scores["holdout"]["value"])
        points = " points" if unit else ""
        yield "optimism", f"{gap:+{digits}}{points}  [dim]best_test - holdout[/dim]"


def _cost(record: Mapping[str, Any]) -> str:
    parts = []
    if record.get("wall_seconds") is not None:
        parts.append(duration(record["wall_seconds"]))
    if record.get("steps_per_second"):
        parts.append(f"{record['steps_per_second']:,.0f} steps/s")
    if record.get("peak_memory_bytes"):
        parts.append(f"{record['peak_memory_bytes'] / 2**20:,.0f} MiB")
    compiled = (record.get("measured") or {}).get("compile") or {}
    if "seconds" in compiled:
        parts.append(f"compiled in {duration(compiled['seconds'])}")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format a time with one or two units."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def opening(
    config: Mapping[str, Any], overrides: Sequence[str], data: str, net: Network
) -> Iterator[RenderableType]:
    """What a run prints before it trains: changed options, and the layers of its network.

    Args:
        config: plain containers.
        overrides: the command line.
        data: the data set in a few words.
        net: the network.
    """
    yield f"[bold]{escape(config['name'])}[/]  {config['model']['name']} on {escape(data)}"
    changed = " ".join(map(shlex.quote, overrides)) or "nothing"
    yield f"[dim]changed:[/] {escape(changed)}  [dim](--cfg job shows every option)[/]"
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("layer", "kind", "output", "parameters", "multiply-adds", "foci"):
        counts = title in ("parameters", "multiply-adds")
        grid.add_column(title, justify="right" if counts else "left")
    cost, focused = net.summary(), net.focused_layers()
    for layer in cost.layers:
        shape = "x".join(map(str, layer.output))
        foci = _foci(focused[layer.name]) if layer.name in focused else ""
        parameters, work = f"{layer.parameters:,}", f"{layer.multiply_adds:,}"
        grid.add_row(layer.name, layer.kind, shape, parameters, work, foci)
    totals = cost.totals()
    grid.add_row("total", "", "", f"{totals['parameters']:,}", f"{totals['multiply_adds']:,}", "")
    yield grid


def _foci(layer: FocusedLinear) -> str:
    """Number, place and width of a layer's foci."""
    mu, sigma = layer.mu.detach(), layer.sigma.detach()
    ends = [f"{float(end):.3g}" for end in (mu.min(), mu.max(), sigma.min(), sigma.max())]
    centres, apertures = (" to ".join(dict.fromkeys(pair)) for pair in (ends[:2], ends[2:]))
    axes = f" in {mu.shape[1]}-d" if mu.shape[1] > 1 else ""
    fixed = "" if layer.mu.requires_grad or layer.sigma.requires_grad else ", fixed"
    return f"{len(mu)}{axes}, mu {centres}, sigma {apertures}{fixed}"


def closing(
    record: Mapping[str, Any], run_dir: Path, overrides: Sequence[str], program: str
) -> Iterator[RenderableType]:
    """What a run prints at its end: summary, figures, and the next commands.

    Args:
        record: of the run.
        run_dir: its folder.
        overrides: the command line.
        program: start of a command, such as ``python train.py``; empty if there is none.
    """
    yield summary(record, run_dir)
    if any(run_dir.glob("figures/*.png")):
        yield f"[dim]figures[/]  {escape(str(run_dir / 'figures'))}"
    if program:  # else from Python
        from focusing.compose import overrides_of_twin  # importing Hydra is slow

        model = record["config"]["model"]["name"]
        twin = dense_twin(model)
        if twin == model and not record["config"]["model"].get("dynamic"):
            twin = {"dense": "focus_s"}.get(model, model.replace("dense", "focus"))
        if (words := overrides_of_twin(overrides, twin)) is not None:
            yield f"[dim]next[/]     {escape(' '.join([program, *map(shlex.quote, words)]))}"
        output = record["config"]["paths"]["output_dir"]
        yield f"         focusing report {escape(shlex.quote(output))}"
    if any(run_dir.glob("wandb/offline-run-*")):
        yield f"[dim]send[/]     focusing wandb push {escape(shlex.quote(str(run_dir)))}"


def table_lines(table: Table, printed: set[str] | None = None) -> Iterator[RenderableType]:
    """A table with its notes, to be printed line by line.

    Notes in ``printed`` are left out, and those of this table are added to it.
    """
    printed = set() if printed is None else printed
    yield _grid(table)
    if len(table.rows) > MAX_ROWS:
        yield Text(f"... and {len(table.rows) - MAX_ROWS} more settings: focusing report has all")
    for note in [note for note in table.notes if note not in printed]:
        printed.add(note)
        yield Padding(Text(note, style="dim"), (0, 0, 0, 1))
    yield ""


def _grid(table: Table) -> Grid:
    grid = Grid(
        title=escape(table.title),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in table.columns:
        grid.add_column(escape(column.title), justify=column.align, overflow="fold")
    for row in table.rows[:MAX_ROWS]:
        if row.starts_block and grid.rows:
            grid.add_section()
        grid.add_row(*map(_cell, row.cells))
    return grid


def _cell(cell: Cell) -> Text:
    content = Text(cell.printed[0], style="bold" if cell.bold else "dim" if cell.dim else "")
    for line in cell.printed[1:]:
        content.append(f"\n{line}", style="dim")
    return content
