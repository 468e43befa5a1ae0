"""What ``focusing prune`` does and prints."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Sequence
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import nn

from focusing.errors import UserError
from focusing.models import Network
from focusing.nn import BandedLinear
from focusing.shipping.pruning import (
    Point,
    check_twin,
    connections_per_neuron,
    fine_tune,
    largest_that_keeps,
    pruned_copy,
    sparsity_of,
    sweep,
    threshold_for,
    write_pruned,
)
from focusing.shipping.trained import Trained, load_run
from focusing.training.metrics import score


def prune(given: argparse.Namespace) -> None:
    """Run the command."""
    if given.keep_accuracy == "twin" and given.dense_twin is None:
        raise UserError("--keep-accuracy twin: which one? Add --dense-twin RUN_DIR.")
    run = load_run(given.run)
    if not run.net.focused_layers():
        raise UserError(f"{given.run} has no focused layers: there is no phi to prune by.")
    twin = load_run(given.dense_twin) if given.dense_twin else None
    if twin is not None:
        check_twin(run, twin)
    judge = "val" if "val" in run.splits else "test"
    console = Console(quiet=given.json, soft_wrap=True)
    if judge == "test":
        _warn(
            "the run held nothing out, so the test data chooses the threshold, as in the paper: "
            "scores at that threshold are optimistic. protocol=holdout holds data out."
        )
    threshold = given.threshold
    if given.sparsity is not None:
        threshold = threshold_for(run.net, given.sparsity)
    points = sweep(run, twin, judge)
    scores = {"own": _scores(run, judge)}
    if twin is not None:
        scores["twin"] = _scores(twin, judge, data=run)
    keeps = {
        name: largest_that_keeps(points, each["judged"], run.metric)
        for name, each in scores.items()
    }
    table = _curve_table(points, keeps, judge, run.metric)
    if threshold is None:
        point = keeps[given.keep_accuracy or "own"]
        if point is None:
            console.print(table)
            raise UserError("No threshold of the sweep keeps the accuracy of the dense twin.")
        threshold = point["threshold"]
    net = pruned_copy(run.net, threshold)
    chosen = {
        "threshold": threshold,
        "sparsity": sparsity_of(net),
        "epochs": given.finetune,
        "connections": connections_per_neuron(run.net, threshold),
        "pruned": _scores(run, judge, net=net),
    }
    _warn_of_empty(chosen["sparsity"], chosen["connections"])
    if given.finetune:
        fine_tune(run, net, given.finetune)
        chosen["finetuned"] = _scores(run, judge, net=net)
    chosen["size"] = _size(net)
    report: dict[str, Any] = {
        "metric": run.metric,
        "judge": judge,
        "unpruned": scores["own"],
        "dense_twin": scores.get("twin"),
        "keeps": keeps,
        "chosen": chosen,
        "curve": points,
    }
    folder = given.out or given.run
    write_pruned(folder, net, report)
    if given.json:
        print(json.dumps(report, indent=1))
    console.print(table)
    console.print(_summary(report))
    console.print(f"{folder / 'pruned.pt'} and {folder / 'pruning.json'} are written.")


def _warn(text: str) -> None:
    Console(stderr=True, soft_wrap=True).print(f"[bold red]Warning:[/] {text}")


def _warn_of_empty(sparsity: float, connections: dict[str, dict[str, float]]) -> None:
    if sparsity == 1:
        _warn("every connection of the focused layers is dropped: inputs do not matter any more.")
        return
    empty = {name: int(each["empty"]) for name, each in connections.items() if each["empty"]}
    if empty:
        told = ", ".join(f"{count} of {name}" for name, count in empty.items())
        _warn(f"some neurons keep no connection, and give the same for all inputs: {told}.")


@torch.no_grad()
def _scores(
    run: Trained, judge: str, *, net: Network | None = None, data: Trained | None = None
) -> dict[str, float]:
    """Of a network on the judging and the test split."""
    found = {}
    for name, split in {"judged": judge, "test": "test"}.items():
        seen = [
            ((net or run.net)(batch.inputs), batch.targets)
            for batch in (data or run).batches(split)
        ]
        found[name] = score([each[0] for each in seen], [each[1] for each in seen])[run.metric]
    return found


def _size(net: Network) -> dict[str, float]:
    """Bytes of the folded and of the sparse network.

    And ``work``: the share of the products of all linear layers that the sparse one computes.
    """
    folded, sparse = net.to_inference(), net.to_inference(sparse=True)
    layers = [each for each in sparse.modules() if isinstance(each, BandedLinear | nn.Linear)]
    products = [each.in_features * each.out_features for each in layers]
    shares = [each.work if isinstance(each, BandedLinear) else 1.0 for each in layers]
    done = sum(share * each for share, each in zip(shares, products, strict=True))
    return {
        "folded_bytes": _bytes(folded),
        "sparse_bytes": _bytes(sparse),
        "work": done / sum(products),
    }


def _bytes(net: nn.Module) -> int:
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    return len(file.getvalue())


def _curve_table(
    points: Sequence[Point], keeps: dict[str, Point | None], judge: str, metric: str
) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title="pruning phi < t", title_justify="left")
    with_twin = "twin_test" in points[0]
    columns = ["t", "dropped", *([judge] if judge != "test" else []), "test"]
    for name in [*columns, *(["twin by magnitude"] if with_twin else []), "last t as good"]:
        table.add_column(name, justify="left" if "last" in name else "right", no_wrap=True)
    for point in points:
        cells = [f"{point['threshold']:.3g}", f"{100 * point['sparsity']:.1f} %"]
        cells += [_number(point["judged"], metric)] if judge != "test" else []
        cells.append(_number(point["test"], metric))
        cells += [_number(point["twin_test"], metric)] if with_twin else []
        notes = {"own": "as unpruned", "twin": "as the twin"}
        said = [notes[name] for name, kept in keeps.items() if kept is point]
        table.add_row(*cells, ", ".join(said))
    return table


def _summary(report: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    metric, chosen, judge = report["metric"], report["chosen"], report["judge"]

    def told(scores: dict[str, float]) -> str:
        test = f"{_number(scores['test'], metric)} test"
        return test if judge == "test" else f"{_number(scores['judged'], metric)} {judge}, {test}"

    table.add_row("unpruned", told(report["unpruned"]))
    if report["dense_twin"]:
        table.add_row("dense twin", told(report["dense_twin"]))
    dropped = f"{100 * chosen['sparsity']:.1f} % dropped"
    table.add_row(f"t = {chosen['threshold']:.3g}", f"{told(chosen['pruned'])}; {dropped}")
    if "finetuned" in chosen:
        epochs = "1 epoch" if chosen["epochs"] == 1 else f"{chosen['epochs']} epochs"
        table.add_row(f"after {epochs}", told(chosen["finetuned"]))
    for name, counts in chosen["connections"].items():
        text = "{least:.0f} to {most:.0f} connections per neuron, {median:.0f} in the middle"
        table.add_row(name, text.format(**counts))
    size = chosen["size"]
    kib = [f"{size[name] / 1024:,.0f} KiB" for name in ("folded_bytes", "sparse_bytes")]
    table.add_row(
        "size",
        f"{kib[0]} folded, {kib[1]} sparse: {100 * size['work']:.0f} % of the linear layers' work",
    )
    return table


def _number(value: float, metric: str) -> str:
    return f"{100 * value:.2f} %" if metric == "acc" else f"{value:.4g}"
