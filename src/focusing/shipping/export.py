"""``focusing export``: a network as a file that is known to work."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from focusing.data import Batches
from focusing.errors import UserError
from focusing.models import Network
from focusing.nn import BandedLinear
from focusing.shipping.card import Card, card_of
from focusing.shipping.formats import SUFFIXES, read, write
from focusing.shipping.pruning import pruned_copy
from focusing.shipping.trained import Trained, load_run

SAMPLES = 64
"""Real samples, at most, on which an exported file is compared with the network."""
TOLERANCE = 1e-4
"""Largest difference that is rounding, relative to the largest output."""


def export(given: argparse.Namespace) -> None:
    """Run the command."""
    run = load_run(given.run, pruned=given.pruned)
    path = given.out or given.run / f"model{SUFFIXES[given.format]}"
    if path.suffix != SUFFIXES[given.format]:
        raise UserError(f"--out {path}: a file of this format ends in {SUFFIXES[given.format]}.")
    net = run.net
    if given.threshold is not None:
        if not net.focused_layers():
            raise UserError(f"--threshold: {given.run} has no focused layers to prune.")
        net = pruned_copy(net, given.threshold)
    done = export_net(run, net, path, kind=given.format, sparse=given.sparse)
    size = path.stat().st_size / 1024
    pruned = done.card.pruned
    dropped = f", {100 * pruned:.1f} % of the connections dropped" if pruned else ""
    print(f"{path}: {size:,.0f} KiB{dropped}.")
    if given.sparse:
        print(done.tiles)
    samples = f"{done.samples} test sample{'s' if done.samples > 1 else ''}"
    print(f"It was run on {samples}: outputs differ by {done.error:.1e} at most.")


@dataclass(frozen=True)
class Exported:
    """What was written.

    Args:
        card: of the file.
        samples: on so many real samples it was compared with the network.
        error: largest difference found, relative to the largest output.
        tiles: what became of the focused layers, in a sentence.
    """

    card: Card
    samples: int
    error: float
    tiles: str


def export_net(run: Trained, net: Network, path: Path, *, kind: str, sparse: bool) -> Exported:
    """Write a network, run the file, and compare.

    Args:
        run: where the network comes from.
        net: the network, which may have been pruned.
        path: the file; is there in the end only if it works.
        kind: a key of ``SUFFIXES``.
        sparse: compute focused layers in tiles.
    """
    samples = run.data.test.take(torch.arange(min(SAMPLES, len(run.data.test.targets))))
    [batch] = Batches(samples, SAMPLES, prepare=run.data.prepare)
    inputs = batch.inputs
    fast = net.to_inference(sparse=sparse)
    card = card_of(run, net, fast)
    part = path.with_name(f".part.{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    part.unlink(missing_ok=True)  # a link in a folder of somebody else's may lead anywhere
    try:
        write(kind, part, fast, inputs.new_zeros(2, *inputs.shape[1:]), card)
        error = _compare(part, net, inputs)
        if not error < TOLERANCE:
            raise UserError(
                f"{path} was not kept: its outputs differ from the network's by {error:.1e}."
            )
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return Exported(card, len(inputs), error, _tiles(net, fast))


def _tiles(net: Network, fast: nn.Module) -> str:
    focused = net.focused_layers()
    banded = {
        name: each.work
        for name, each in fast.named_modules()
        if isinstance(each, BandedLinear) and each.work < 1 and name in focused
    }
    if not banded:
        return "No tiles pay: it is stored dense."
    sizes = {name: each.weight.numel() for name, each in focused.items()}
    done = sum(size * banded.get(name, 1.0) for name, size in sizes.items())
    return (
        f"{len(banded)} of {len(focused)} focused layers in tiles: "
        f"{100 * done / sum(sizes.values()):.0f} % of their products are left."
    )


@torch.no_grad()
def _compare(path: Path, net: Network, inputs: Tensor) -> float:
    """Largest relative difference, over batches of one and of many."""
    run, _ = read(path, trust=True)
    expected = net.eval()(inputs)
    found = torch.cat([run(inputs[:1]), run(inputs)])
    expected = torch.cat([expected[:1], expected])
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
