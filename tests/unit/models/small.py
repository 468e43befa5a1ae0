"""One small network of each kind, dense and focused."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from focusing.models import (
    CNN,
    MLP,
    FastText,
    Network,
    Transfer,
    focused_cnn,
    focused_fasttext,
    focused_mlp,
    focused_transfer,
)

FOCUS: dict[str, Any] = {"mu": "spread", "sigma": 0.1}

NETWORKS: dict[str, Callable[[], Network]] = {
    "mlp_dense": lambda: MLP((6, 5, 1), 3, [8, 6], input_dropout=0.2, dropout=[0.25, 0.25]),
    "mlp_focus": lambda: focused_mlp((6, 5, 1), 3, hidden=[8, 6], topology="image", **FOCUS),
    "cnn_dense": lambda: CNN((9, 6, 2), 3, filters=[4, 5], hidden=8),
    "cnn_focus": lambda: focused_cnn((9, 6), 3, filters=[4, 5], hidden=8, **FOCUS),
    "transfer_dense": lambda: Transfer((8, 8, 3), 3, features="small", pretrained=False, hidden=8),
    "transfer_focus": lambda: focused_transfer(
        (8, 8, 3), 3, features="small", pretrained=False, hidden=8, pad=3, **FOCUS
    ),
    "fasttext_dense": lambda: FastText((12,), 2, 30, embedding=6),
    "fasttext_focus": lambda: focused_fasttext((12,), 2, 30, embedding=6, mu=0.5, sigma=0.5),
}


def make(name: str, seed: int = 0) -> Network:
    torch.manual_seed(seed)
    return NETWORKS[name]()


def inputs_of(net: Network, samples: int) -> Tensor:
    """Random inputs for a network."""
    example = net.example(samples)
    if example.is_floating_point():
        return torch.randn_like(example)
    assert isinstance(net, FastText)
    return torch.randint_like(example, net.vocabulary)
