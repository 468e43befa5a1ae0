"""``focusing prune``: how far a network can be pruned, and the network that is left."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from focusing.callbacks import ClipFoci
from focusing.config import Optim
from focusing.errors import UserError
from focusing.models import Network
from focusing.results.store import atomic_write
from focusing.shipping.trained import PRUNED, Trained
from focusing.training.checkpoint import encode
from focusing.training.module import FocusingModule
from focusing.training.pruning import (
    connections,
    magnitude_curve,
    pruning_curve,
)
from focusing.training.session import build_trainer, fit

Point = dict[str, Any]
GENTLE = 0.1
"""Learning rates of fine-tuning, as a share of those of the run."""


def sweep(run: Trained, twin: Trained | None, judge: str) -> list[Point]:
    """Scores at every threshold of the paper.

    Args:
        run: a run with focus.
        twin: a dense run on the same data, whose smallest weights are dropped at equal sparsity.
        judge: the split that chooses.

    Returns:
        ``threshold``, ``sparsity``, and scores on the judging and the test split: ``judged`` and
        ``test`` of the network, ``twin_judged`` and ``twin_test`` of the pruned twin.
    """
    names = {"judged": judge, "test": "test"}
    curves = {name: pruning_curve(run.net, run.batches(split)) for name, split in names.items()}
    points = [{key: each[key] for key in ("threshold", "sparsity")} for each in curves["test"]]
    for name, curve in curves.items():
        for point, each in zip(points, curve, strict=True):
            point[name] = each[run.metric]
    if twin is not None:
        sparsities = [point["sparsity"] for point in points]
        for name, split in names.items():
            curve = magnitude_curve(twin.net, run.batches(split), sparsities)
            for point, each in zip(points, curve, strict=True):
                point[f"twin_{name}"] = each[run.metric]
    return points


def largest_that_keeps(points: Sequence[Point], least: float, metric: str) -> Point | None:
    """The last point of a sweep whose score is at least as good as another; None: none is."""
    sign = -1 if metric == "mae" else 1
    kept = [point for point in points if sign * point["judged"] >= sign * least]
    return kept[-1] if kept else None


@torch.no_grad()
def threshold_for(net: Network, sparsity: float) -> float:
    """The threshold that drops this share of the connections of all focused layers together."""
    if not 0 <= sparsity < 1:
        raise UserError(f"--sparsity {sparsity:g} must be at least 0 and less than 1.")
    phi = torch.cat([each.phi().abs().flatten() for each in net.focused_layers().values()])
    dropped = round(sparsity * len(phi))
    if not dropped:
        return 0.0
    return float(phi.kthvalue(min(dropped + 1, len(phi))).values)


def check_twin(run: Trained, twin: Trained) -> None:
    """Refuse a twin that cannot be compared."""
    if twin.net.focused_layers():
        raise UserError(f"{twin.folder} is not a dense twin: its network focuses.")
    if twin.data.fingerprint != run.data.fingerprint:
        raise UserError(f"{twin.folder} was not trained on the same data as {run.folder}.")
    for name in sorted({"val", "test"} & set(run.splits)):
        own, other = run.splits[name], twin.splits.get(name)
        if other is None or not (
            torch.equal(own.targets, other.targets) and torch.equal(own.inputs, other.inputs)
        ):
            raise UserError(
                f"{twin.folder} has other {name} samples than {run.folder}, so it may have been "
                "trained on those that judge: train it with the same data, protocol and seed."
            )


def fine_tune(run: Trained, net: Network, epochs: int) -> None:
    """Train a pruned network in place; what was dropped stays dropped.

    Learning rates are a tenth of the run's, and constant.

    Args:
        run: tells how; its network stays as it is.
        net: the pruned network.
        epochs: how long.
    """
    given = Optim(**run.config["optim"])
    rates = {name: GENTLE * getattr(given, name) for name in ("lr", "lr_mu", "lr_sigma")}
    optim = replace(given, **rates, decay_epochs=[], anneal_epochs=0)
    options = {**run.config["trainer"], "max_epochs": epochs}
    splits = dict(run.splits)
    module = FocusingModule(net, optim, seed=run.config["seed"], evaluated=["test"])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checkpoints").mkdir()
        trainer = build_trainer(options, Path(folder), callbacks=[ClipFoci()])
        fit(
            trainer,
            module,
            splits["train"],
            {"test": splits["test"]},
            optim,
            prepare=run.data.prepare,
            augment=run.data.augment,
        )
    net.cpu().eval()


def pruned_copy(net: Network, threshold: float) -> Network:
    """A copy without the connections whose phi is below a threshold."""
    twin = copy.deepcopy(net)
    for layer in twin.focused_layers().values():
        layer.prune(threshold)
    return twin


def sparsity_of(net: Network) -> float:
    """Share of the focused layers' connections that a pruned network has lost."""
    masks = [each.mask for each in net.focused_layers().values() if each.mask is not None]
    return 1 - sum(int(each.sum()) for each in masks) / sum(each.numel() for each in masks)


def connections_per_neuron(net: Network, threshold: float) -> dict[str, dict[str, float]]:
    """Least, median and most connections that a neuron of each focused layer keeps.

    And ``empty``: how many neurons keep none.
    """
    found = {}
    for name, counts in connections(net, threshold).items():
        values = torch.tensor(counts, dtype=torch.float64)
        quantiles = values.quantile(torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64))
        found[name] = dict(zip(("least", "median", "most"), quantiles.tolist(), strict=True))
        found[name]["empty"] = counts.count(0)
    return found


def write_pruned(folder: Path, net: Network, report: Mapping[str, Any]) -> None:
    """Leave the network, with its masks, and the report."""
    text = json.dumps(report, indent=1, allow_nan=False)  # may fail, so before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / "pruning.json", text.encode())
    facts = {name: report["chosen"][name] for name in ("threshold", "sparsity", "epochs")}
    state = {name: value.contiguous() for name, value in net.state_dict().items()}
    atomic_write(folder / PRUNED, encode({"state_dict": state, **facts}))
