"""Where the callbacks find the focused layers of a module in training."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch

from focusing.nn import FocusedLinear


def focused_layers(module: pl.LightningModule) -> dict[str, FocusedLinear]:
    """Focused layers by name.

    A network of ours names its own (``net.focused_layers()``); of any other module those that
    ``named_modules`` finds are taken.
    """
    net: Any = getattr(module, "net", module)
    if hasattr(net, "focused_layers"):
        return dict(net.focused_layers())
    return {name: each for name, each in net.named_modules() if isinstance(each, FocusedLinear)}


def optimizers(trainer: pl.Trainer) -> list[torch.optim.Optimizer]:
    """The torch optimizers of a trainer.

    Their step hooks fire once per step: neither per micro-batch under gradient accumulation, nor
    never when a module steps by hand, and Lightning has no hook that can say the same.
    """
    return [each for each in trainer.optimizers if isinstance(each, torch.optim.Optimizer)]
