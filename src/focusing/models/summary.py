"""How large a network is, and how much it computes: layer by layer and in all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from focusing.nn import FocusedLinear

HEAD = ("layer", "kind", "output", "parameters", "connections", "multiply-adds")


@dataclass(frozen=True)
class LayerSummary:
    """One layer that has parameters.

    Args:
        name: as in ``named_modules``.
        kind: its class.
        output: shape of what it makes of a sample.
        parameters: all its numbers.
        trained: those that have a gradient.
        connections: weights that link an input to a neuron: without biases, batch norm and what is
            pruned; of a focused layer those within its foci, of a convolution each weight once.
        multiply_adds: of these connections, per sample; a convolution's at every place, its
            padding included. Of an embedding: the additions of its mean.
    """

    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int
    trained: int
    connections: int
    multiply_adds: int


@dataclass(frozen=True)
class Summary:
    """The layers of a network; ``print`` it for a table."""

    layers: tuple[LayerSummary, ...]

    @property
    def parameters(self) -> int:
        """All numbers of the network."""
        return sum(each.parameters for each in self.layers)

    @property
    def trained(self) -> int:
        """Those that have a gradient."""
        return sum(each.trained for each in self.layers)

    @property
    def connections(self) -> int:
        """Weights that link."""
        return sum(each.connections for each in self.layers)

    @property
    def multiply_adds(self) -> int:
        """Per sample."""
        return sum(each.multiply_adds for each in self.layers)

    def totals(self) -> dict[str, int]:
        """What a record keeps."""
        names = ("parameters", "trained", "connections", "multiply_adds")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        rows = [HEAD]
        for each in self.layers:
            shape = "x".join(map(str, each.output))
            rows.append((each.name, each.kind, shape, *_counts(each)))
        rows.append(("total", "", "", *_counts(self)))
        return _table(rows)


def summarize(net: nn.Module, sample: Tensor) -> Summary:
    """Count what a network has and does.

    Args:
        net: any module.
        sample: a batch of one, on the network's device; only its shape and type matter.
    """
    owners = _owners(net)
    outputs: dict[nn.Module, tuple[int, ...]] = {}
    links = {module: connections(module) for module in owners}
    work = dict.fromkeys(owners, 0)

    def watch(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        outputs[module] = tuple(output.shape[1:])
        work[module] += _multiply_adds(module, links[module], inputs[0], output)

    hooks = [module.register_forward_hook(watch) for module in owners]
    modes = {module: module.training for module in net.modules()}
    # Plainly, for the other ways leave a plan of the product behind.
    backends = {each: each.backend for each in owners if isinstance(each, FocusedLinear)}
    try:
        for layer in backends:
            layer.backend = "reference"
        with torch.no_grad():
            net.eval()(sample)  # in eval mode nothing is drawn, and batch norm counts nothing
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes.items():
            module.training = training
        for layer, backend in backends.items():
            layer.backend = backend
    return Summary(
        tuple(
            LayerSummary(
                name,
                type(module).__name__,
                outputs.get(module, ()),
                sum(each.numel() for each in parameters),
                sum(each.numel() for each in parameters if each.requires_grad),
                links[module],
                work[module],
            )
            for module, (name, parameters) in owners.items()
        )
    )


@torch.no_grad()
def connections(layer: nn.Module) -> int:
    """Weights of a layer that link an input to a neuron."""
    if isinstance(layer, FocusedLinear):
        phi = layer.phi().abs()  # zero where pruned
        return int((phi > layer.cutoff * phi.amax(1, keepdim=True)).sum())
    if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Embedding | nn.EmbeddingBag):
        mask = getattr(layer, "weight_mask", None)  # of torch.nn.utils.prune
        return layer.weight.numel() if mask is None else int(mask.count_nonzero())
    return 0


def _multiply_adds(layer: nn.Module, links: int, input: Tensor, output: Tensor) -> int:
    if isinstance(layer, FocusedLinear | nn.Linear):
        return links * (output.numel() // layer.out_features)
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        return links * (output.numel() // layer.out_channels)
    if isinstance(layer, nn.EmbeddingBag):
        return input.numel() * layer.embedding_dim
    return 0


def _owners(net: nn.Module) -> dict[nn.Module, tuple[str, list[nn.Parameter]]]:
    """Modules that hold parameters themselves; a shared one belongs to the first."""
    seen: set[nn.Parameter] = set()
    owners = {}
    for name, module in net.named_modules():
        own = [each for each in module.parameters(recurse=False) if each not in seen]
        seen.update(own)
        if own:
            owners[module] = (name, own)
    return owners


def _counts(counted: LayerSummary | Summary) -> tuple[str, str, str]:
    numbers = (counted.parameters, counted.connections, counted.multiply_adds)
    one, two, three = (f"{number:,}" for number in numbers)
    return one, two, three


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = []
    for row in rows:
        left = [text.ljust(width) for text, width in zip(row[:3], widths[:3], strict=True)]
        right = [text.rjust(width) for text, width in zip(row[3:], widths[3:], strict=True)]
        lines.append("  ".join([*left, *right]).rstrip())
    return "\n".join(lines)
