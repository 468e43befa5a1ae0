"""A run in the terminal: what it was, what it scored, what it cost."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from focusing.errors import UserError
from focusing.results.record import read_record

PROTOCOLS = {
    "paper": "best test epoch, as in the paper",
    "holdout": "test at the best validation epoch",
    "last": "test after the last epoch",
}


def show(args: argparse.Namespace) -> None:
    """``focusing show``: print the summary of ``args.run``."""
    record = read_record(args.run)
    if record is None:
        begun = (args.run / "config.yaml").exists()
        raise UserError(
            f"{args.run} has no result.json: " + ("not finished." if begun else "not a run folder.")
        )
    console = Console(soft_wrap=True)
    console.print(summary(record, str(args.run)))
    for figure in sorted(args.run.glob("figures/*.png")):
        console.print(str(figure))


def summary(record: Mapping[str, Any], folder: str | None = None) -> Table:
    """A compact table of a run's record.

    Args:
        record: the contents of ``result.json``; what it lacks is left out.
        folder: the run folder, if the record does not name it.
    """
    table = Table(box=SIMPLE_HEAD, show_header=True, pad_edge=False, title_justify="left")
    table.add_column(escape(str(record.get("experiment") or "run")), style="dim", no_wrap=True)
    table.add_column(_status(record), overflow="fold")
    for name, value in _rows(record, folder):
        table.add_row(name, value)
    return table


def _rows(record: Mapping[str, Any], folder: str | None) -> Iterator[tuple[str, str]]:
    if record.get("error"):
        yield "error", f"[red]{escape(str(record['error']))}[/red]"
    data = record.get("data") or {}
    if data:
        source = f" from {data['source']}" if data.get("source") else ""
        sizes = [f"{data[part]} {part}" for part in ("train", "val", "test") if data.get(part)]
        yield "data", escape(f"{data.get('name', '?')}{source}: {', '.join(sizes) or '?'}")
    model = _model(record)
    if model:
        yield "model", escape(model)
    yield from _scores(record)
    for layer, path in (record.get("focus") or {}).items():
        told = [path.get(key) for key in ("moved", "sigma_first", "sigma_last")]
        if None not in told:
            words = "moved {:.3f} on average, sigma {:.3f} to {:.3f}".format(*told)
            yield f"foci of {escape(layer)}", words
    cost = _cost(record)
    if cost:
        yield "cost", cost
    where = folder or record.get("folder")
    if where:
        yield "folder", escape(str(where))


def _status(record: Mapping[str, Any]) -> str:
    seed = f"seed {record['seed']}" if record.get("seed") is not None else ""
    shown = {"failed": "[red]failed[/red]", "pruned": "[yellow]pruned[/yellow]"}
    status = shown.get(str(record.get("status")))
    return f"{seed}  {status}".strip() if status else seed or "done"


def _model(record: Mapping[str, Any]) -> str:
    model = (record.get("config") or {}).get("model") or {}
    name = model.get("name") if isinstance(model, Mapping) else model
    count = (record.get("network") or {}).get("parameters")
    parts = [str(name)] if name else []
    return ", ".join(parts + ([f"{count:,} parameters"] if count else []))


def _scores(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    metric = record.get("metric") or "score"
    scores = {name: given for name, given in (record.get("scores") or {}).items() if given}
    for name, given in scores.items():
        epoch = given.get("epoch")  # counted from 0 in records, from 1 for people
        value = f"[bold]{_number(given['value'], metric)}[/bold]"
        value += f" at epoch {epoch + 1}" if epoch is not None else ""
        yield escape(f"{metric} ({name})"), f"{value}  [dim]{PROTOCOLS.get(name, '')}[/dim]"
    if {"paper", "holdout"} <= scores.keys():
        gap = scores["paper"]["value"] - scores["holdout"]["value"]
        shown = f"{100 * gap:+.2f} points" if metric == "accuracy" else f"{gap:+.4g}"
        yield "optimism", f"{shown}  [dim]paper - holdout[/dim]"


def _number(value: float, metric: str) -> str:
    return f"{100 * value:.2f} %" if metric == "accuracy" else f"{value:.4g}"


def _cost(record: Mapping[str, Any]) -> str:
    parts = []
    if record.get("wall_seconds") is not None:
        parts.append(_time(record["wall_seconds"]))
    if record.get("steps_per_second"):
        parts.append(f"{record['steps_per_second']:,.0f} steps/s")
    if record.get("peak_memory_bytes"):
        parts.append(f"{record['peak_memory_bytes'] / 2**20:,.0f} MiB")
    return ", ".join(parts)


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
