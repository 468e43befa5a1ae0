"""``focusing prune``: score a network at many pruning thresholds, and prune it at one of them."""

from __future__ import annotations

import argparse
import copy
import io
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import nn

from focusing.callbacks import ClipFoci
from focusing.callbacks.pruning_curve import connections, magnitude_curve, pruning_curve
from focusing.config import Optim
from focusing.errors import UserError
from focusing.models import Network
from focusing.nn import BandedLinear
from focusing.results.store import atomic_write
from focusing.shipping.card import sparsity_of
from focusing.shipping.trained import PRUNED, Trained, load_run
from focusing.training.checkpoint import encode
from focusing.training.module import FocusingModule
from focusing.training.trainer import build_trainer, fit

Point = dict[str, Any]
FINE_TUNING_RATE = 0.1
"""Factor on the learning rates of the run."""


def run(args: argparse.Namespace) -> None:
    """Score all thresholds, prune at one, and write ``pruned.pt`` and ``pruning.json``."""
    if args.keep_accuracy == "twin" and args.dense_twin is None:
        raise UserError("--keep-accuracy twin: which one? Add --dense-twin RUN_DIR.")
    trained = load_run(args.run)
    if not trained.net.focused_layers():
        raise UserError(f"{args.run} has no focused layers: there is no phi to prune by.")
    twin = load_run(args.dense_twin) if args.dense_twin else None
    if twin is not None:
        check_twin(trained, twin)
    judge = "val" if "val" in trained.splits else "test"
    if judge == "test":
        _warn(
            "the run held nothing out, so the test data chooses the threshold, as in the paper: "
            "scores at that threshold are optimistic. protocol=holdout holds data out."
        )
    threshold = args.threshold
    if args.sparsity is not None:
        threshold = threshold_for(trained.net, args.sparsity)
    points = sweep_thresholds(trained, twin, judge)
    unpruned = {name: points[0][name] for name in ("judged", "test")}  # t = 0
    dense = {name: points[0][f"twin_{name}"] for name in unpruned} if twin is not None else None
    keeps = {"own": largest_that_keeps(points, unpruned["judged"], trained.metric)}
    if dense is not None:
        keeps["twin"] = largest_that_keeps(points, dense["judged"], trained.metric)
    console = Console(quiet=args.json, soft_wrap=True)
    console.print(_curve_table(points, keeps, judge, trained.metric))
    if threshold is None:
        point = keeps[args.keep_accuracy or "own"]
        if point is None:
            raise UserError("No threshold of the sweep keeps the accuracy of the dense twin.")
        threshold = point["threshold"]
    net = pruned_copy(trained.net, threshold)
    chosen = {
        "threshold": threshold,
        "sparsity": sparsity_of(net),
        "epochs": args.finetune,
        "connections": connections_per_neuron(trained.net, threshold),
        "pruned": _scores(trained, net, judge),
    }
    _warn_of_empty(chosen["sparsity"], chosen["connections"])
    if args.finetune:
        fine_tune(trained, net, args.finetune)
        chosen["finetuned"] = _scores(trained, net, judge)
    chosen["size"] = inference_size(net)
    report: dict[str, Any] = {
        "metric": trained.metric,
        "judge": judge,
        "unpruned": unpruned,
        "dense_twin": dense,
        "keeps": keeps,
        "chosen": chosen,
        "curve": points,
    }
    folder = args.out or args.run
    write_pruned(folder, net, report)
    if args.json:
        print(json.dumps(report, indent=1))
    console.print(_summary(report))
    wrote = f"Wrote {folder / 'pruned.pt'} and {folder / 'pruning.json'}."
    console.print(wrote, markup=False)


def check_twin(trained: Trained, twin: Trained) -> None:
    """Reject a twin that is not comparable."""
    if twin.net.focused_layers():
        raise UserError(f"{twin.folder} is not a dense twin: its network focuses.")
    if twin.data.fingerprint != trained.data.fingerprint:
        raise UserError(f"{twin.folder} was not trained on the same data as {trained.folder}.")
    for name in sorted({"val", "test"} & set(trained.splits)):
        own, other = trained.splits[name], twin.splits.get(name)
        if other is None or not (
            torch.equal(own.targets, other.targets) and torch.equal(own.inputs, other.inputs)
        ):
            raise UserError(
                f"{twin.folder} has other {name} samples than {trained.folder}, so it may have "
                "been trained on those that judge: train it with the same data, protocol and seed."
            )


def sweep_thresholds(trained: Trained, twin: Trained | None, judge: str) -> list[Point]:
    """Score the network at every threshold of the paper.

    Args:
        trained: a run of a focusing network.
        twin: a dense run on the same data; its smallest weights are dropped at equal sparsity.
        judge: the split that chooses the threshold.

    Returns:
        For every threshold ``threshold``, ``sparsity``, and scores on the split ``judge`` and the
        test split: ``judged`` and ``test`` of the network, ``twin_judged`` and ``twin_test``.
    """
    points: list[Point] = []
    for name, split in {"judged": judge, "test": "test"}.items():
        curve = pruning_curve(trained.net, trained.batches(split))
        points = points or [{key: p[key] for key in ("threshold", "sparsity")} for p in curve]
        for point, scores in zip(points, curve, strict=True):
            point[name] = scores[trained.metric]
        if twin is not None:
            sparsities = [point["sparsity"] for point in points]
            curve = magnitude_curve(twin.net, trained.batches(split), sparsities)
            for point, scores in zip(points, curve, strict=True):
                point[f"twin_{name}"] = scores[trained.metric]
    return points


def largest_that_keeps(points: Sequence[Point], minimum: float, metric: str) -> Point | None:
    """Find the last point of a sweep that is at least as good as a score; None if there is none."""
    sign = -1 if metric == "mae" else 1
    kept = [point for point in points if sign * point["judged"] >= sign * minimum]
    return kept[-1] if kept else None


@torch.no_grad()
def threshold_for(net: Network, sparsity: float) -> float:
    """Find the threshold that drops a fraction of the connections of all focused layers."""
    if not 0 <= sparsity < 1:
        raise UserError(f"--sparsity {sparsity:g} must be at least 0 and less than 1.")
    phi = torch.cat([layer.phi().abs().flatten() for layer in net.focused_layers().values()])
    dropped = round(sparsity * len(phi))
    if not dropped:
        return 0.0
    return float(phi.kthvalue(min(dropped + 1, len(phi))).values)


def pruned_copy(net: Network, threshold: float) -> Network:
    """Copy a network, and drop the connections whose phi is below a threshold."""
    pruned = copy.deepcopy(net)
    for layer in pruned.focused_layers().values():
        layer.prune(threshold)
    return pruned


def connections_per_neuron(net: Network, threshold: float) -> dict[str, dict[str, float]]:
    """Count the connections that the neurons of the focused layers keep.

    Returns:
        For every layer the ``least``, ``median`` and ``most`` connections of a neuron, and the
        number of neurons without any: ``empty``.
    """
    return {
        name: {
            "least": min(counts),
            "median": statistics.median(counts),
            "most": max(counts),
            "empty": counts.count(0),
        }
        for name, counts in connections(net, threshold).items()
    }


def fine_tune(trained: Trained, net: Network, epochs: int) -> None:
    """Train a pruned network in place; dropped connections stay dropped.

    The learning rates are constant, at a tenth of the run's. ``trained.net`` does not change.
    """
    optim = Optim(**trained.config["optim"])
    rates = {
        name: FINE_TUNING_RATE * getattr(optim, name)
        for name in ("lr", "lr_mu", "lr_sigma", "lr_dynamic")
    }
    optim = replace(optim, **rates, decay_epochs=[], anneal_epochs=0)
    options = {**trained.config["trainer"], "max_epochs": epochs}
    module = FocusingModule(net, optim, seed=trained.config["seed"])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checkpoints").mkdir()
        fit(
            build_trainer(options, Path(folder), callbacks=[ClipFoci()]),
            module,
            {name: trained.splits[name] for name in ("train", "test")},
            prepare=trained.data.prepare,
            augment=trained.data.augment,
        )
    net.cpu().eval()


def inference_size(net: Network) -> dict[str, float]:
    """Measure the folded and the sparse network for inference.

    Returns:
        ``folded_bytes``, ``sparse_bytes``, and ``work``: the fraction of the multiplications of all
        linear layers that the sparse network computes.
    """
    sizes: dict[str, float] = {}
    for name, sparse in {"folded_bytes": False, "sparse_bytes": True}.items():
        fast = net.to_inference(sparse=sparse)
        file = io.BytesIO()
        torch.save(fast.state_dict(), file)
        sizes[name] = len(file.getvalue())
    products = computed = 0.0
    for layer in fast.modules():  # of the sparse network
        if isinstance(layer, BandedLinear | nn.Linear):
            size = layer.in_features * layer.out_features
            products += size
            computed += size * (layer.work if isinstance(layer, BandedLinear) else 1.0)
    return {**sizes, "work": computed / products}


def write_pruned(folder: Path, net: Network, report: Mapping[str, Any]) -> None:
    """Write the network with its masks, and the report."""
    text = json.dumps(report, indent=1, allow_nan=False)  # first, because it may fail
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / "pruning.json", text.encode())
    facts = {name: report["chosen"][name] for name in ("threshold", "sparsity", "epochs")}
    state = {name: value.contiguous() for name, value in net.state_dict().items()}
    atomic_write(folder / PRUNED, encode({"state_dict": state, **facts}))


def _scores(trained: Trained, net: Network, judge: str) -> dict[str, float]:
    """Score a network on the split ``judge`` and the test split."""
    splits = {"judged": judge, "test": "test"}
    return {name: trained.scores(split, net)[trained.metric] for name, split in splits.items()}


def _warn(text: str) -> None:
    Console(stderr=True, soft_wrap=True).print(f"[bold red]Warning:[/] {escape(text)}")


def _warn_of_empty(sparsity: float, counts: dict[str, dict[str, float]]) -> None:
    if sparsity == 1:
        _warn("all connections of the focused layers are dropped: outputs ignore the inputs.")
        return
    empty = [f"{count['empty']:.0f} of {name}" for name, count in counts.items() if count["empty"]]
    if empty:
        _warn(f"some neurons keep no connection, so their output is constant: {', '.join(empty)}.")


def _curve_table(
    points: Sequence[Point], keeps: dict[str, Point | None], judge: str, metric: str
) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title="pruning phi < t", title_justify="left")
    scores = {} if judge == "test" else {"judged": judge}
    scores["test"] = "test"
    if "twin_test" in points[0]:
        scores["twin_test"] = "twin by magnitude"
    for name in ["t", "dropped", *scores.values()]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("last t as good", no_wrap=True)
    notes = {"own": "as unpruned", "twin": "as the twin"}
    for point in points:
        table.add_row(
            f"{point['threshold']:.3g}",
            f"{100 * point['sparsity']:.1f} %",
            *(_format(point[name], metric) for name in scores),
            ", ".join(notes[name] for name, kept in keeps.items() if kept is point),
        )
    return table


def _summary(report: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    metric, chosen, judge = report["metric"], report["chosen"], report["judge"]

    def describe(scores: dict[str, float]) -> str:
        test = f"{_format(scores['test'], metric)} test"
        return test if judge == "test" else f"{_format(scores['judged'], metric)} {judge}, {test}"

    table.add_row("unpruned", describe(report["unpruned"]))
    if report["dense_twin"]:
        table.add_row("dense twin", describe(report["dense_twin"]))
    dropped = f"{100 * chosen['sparsity']:.1f} % dropped"
    table.add_row(f"t = {chosen['threshold']:.3g}", f"{describe(chosen['pruned'])}; {dropped}")
    if "finetuned" in chosen:
        epochs = "1 epoch" if chosen["epochs"] == 1 else f"{chosen['epochs']} epochs"
        table.add_row(f"after {epochs}", describe(chosen["finetuned"]))
    for name, counts in chosen["connections"].items():
        text = "{least:.0f} to {most:.0f} connections per neuron, {median:.0f} in the middle"
        table.add_row(name, text.format(**counts))
    size = chosen["size"]
    folded, sparse = (size[name] / 1024 for name in ("folded_bytes", "sparse_bytes"))
    table.add_row(
        "size",
        f"{folded:,.0f} KiB folded, {sparse:,.0f} KiB sparse: {100 * size['work']:.0f} % of the "
        "linear layers' work",
    )
    return table


def _format(value: float, metric: str) -> str:
    return f"{100 * value:.2f} %" if metric == "acc" else f"{value:.4g}"
