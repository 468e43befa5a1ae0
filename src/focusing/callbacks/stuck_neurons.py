"""Notice foci that have stopped learning."""

from __future__ import annotations

import logging
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from focusing.callbacks.layers import focused_layers
from focusing.callbacks.step_hooks import StepHooks
from focusing.nn import FocusedLinear

log = logging.getLogger(__name__)


class StuckNeurons(StepHooks):
    """Counts the foci that neither move nor receive gradient.

    A coordinate of mu or sigma is quiet in an epoch if it changed by less than ``tolerance`` and
    either its gradient was below ``gradient`` or it sits at the end of its range, where clipping
    undoes what the gradient does. A neuron whose trained coordinates were all quiet for ``window``
    epochs in a row is stuck. Layers whose foci are not trained have none.

    The gradient is looked at once per epoch, at its first optimizer step. The count is logged
    per epoch as ``focus/stuck`` (and ``focus/stuck_<layer>`` if there are several layers); one
    warning at the end says where they are and what to try.

    Args:
        window: epochs of silence after which a neuron counts as stuck.
        tolerance: greatest movement per epoch, in units of the input axis, of a quiet coordinate.
        gradient: greatest |gradient| of a quiet coordinate.
    """

    def __init__(self, window: int = 5, tolerance: float = 1e-5, gradient: float = 1e-7) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window={window} must be at least 1 epoch.")
        self.window, self.tolerance, self.gradient = window, tolerance, gradient
        self.silence: dict[str, Tensor] = {}
        self._layers: dict[str, FocusedLinear] = {}
        self._before: dict[str, Tensor] = {}
        self._deaf: dict[str, Tensor] = {}
        self._listening = True

    @property
    def stuck(self) -> dict[str, int]:
        """Number of stuck neurons per layer."""
        return {name: int((n >= self.window).sum()) for name, n in self.silence.items()}

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take the layers with trained foci and listen to the optimizers."""
        layers = focused_layers(pl_module)
        self._layers = {name: layer for name, layer in layers.items() if _trained(layer)}
        for name, layer in self._layers.items():
            if name not in self.silence:
                self.silence[name] = torch.zeros(layer.out_features, dtype=torch.int64)
                self._before[name] = _foci(layer)
        if self._layers:
            self.after_each_step(trainer, self._listen)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The next step's gradients count for this epoch."""
        self._listening = True

    def _listen(self, *_: Any) -> None:
        if not self._listening:
            return
        self._listening = False
        for name, layer in self._layers.items():
            grads = [
                torch.zeros_like(each) if each.grad is None else each.grad.detach()
                for each in _trained(layer)
            ]
            self._deaf[name] = (torch.cat(grads, dim=1).abs() < self.gradient).cpu()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Update the counts and log them."""
        if not self._layers:
            return
        for name, layer in self._layers.items():
            now = _foci(layer)
            still = (now - self._before[name]).abs() < self.tolerance
            deaf = self._deaf.get(name, torch.zeros_like(still))  # no step, no evidence
            quiet = (still & (deaf | _at_bound(layer, now))).all(dim=1)
            self.silence[name] = torch.where(quiet, self.silence[name] + 1, 0)
            self._before[name] = now
        self._deaf = {}
        stuck = self.stuck
        counts = {f"focus/stuck_{name}": stuck[name] for name in stuck} if len(stuck) > 1 else {}
        values = {"focus/stuck": sum(stuck.values()), **counts}
        # The module hands these to the loggers with its own row; log_dict takes longer than a step.
        trainer.callback_metrics.update({key: torch.tensor(float(n)) for key, n in values.items()})

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say once what is stuck."""
        found = {name: count for name, count in self.stuck.items() if count}
        if not found or not trainer.is_global_zero:
            return
        parts = [f"{n} of {len(self.silence[name])} in {name}" for name, n in found.items()]
        log.warning(
            "Stuck foci: %s neither moved nor received gradient in the last %d epochs. Try a wider "
            "initial sigma, mu=spread so that some start near the informative inputs, or larger "
            "learning rates of mu and sigma.",
            ", ".join(parts),
            self.window,
        )

    def state_dict(self) -> dict[str, Any]:
        """Epochs of silence per neuron, and what the next epoch is compared with."""
        return {
            "silence": dict(self.silence),
            "before": dict(self._before),
            "deaf": dict(self._deaf),
            "listening": self._listening,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting where the checkpoint was written."""
        self.silence = dict(state_dict["silence"])
        self._before = dict(state_dict["before"])
        self._deaf = dict(state_dict["deaf"])
        self._listening = state_dict["listening"]


def _trained(layer: FocusedLinear) -> list[Tensor]:
    return [each for each in (layer.mu, layer.sigma) if each.requires_grad]


def _foci(layer: FocusedLinear) -> Tensor:
    """Trained coordinates of the foci, (n, d) or (n, 2d), as a copy on the CPU."""
    return torch.cat([each.detach() for each in _trained(layer)], dim=1).float().cpu()


def _at_bound(layer: FocusedLinear, foci: Tensor) -> Tensor:
    ranges = [
        (bounds, each)
        for bounds, each in ((layer.mu_range, layer.mu), (layer.sigma_range, layer.sigma))
        if each.requires_grad
    ]
    parts = foci.chunk(len(ranges), dim=1)
    held = [
        (part <= low + 1e-7) | (part >= high - 1e-7)
        for part, ((low, high), _) in zip(parts, ranges, strict=True)
    ]
    return torch.cat(held, dim=1)
