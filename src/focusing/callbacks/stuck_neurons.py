"""Count neurons whose focus is stuck in an uninformative place."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any

import pytorch_lightning as pl
import torch
from annotated_types import Ge
from torch import Tensor

from focusing.callbacks.analysis import Resumable, focused_layers
from focusing.nn import FocusedLinear
from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)


class StuckNeurons(Resumable):
    """Counts neurons whose focus has stopped in an uninformative place.

    A neuron is stuck if both conditions hold:

    - It does not move: every trained coordinate of its mu and sigma is within ``tolerance``
      apertures (its sigma) of its value ``window`` epochs ago. Movement in between does not count:
      a focus amid noise jitters.
    - Its output is unrelated to the targets: they explain less than ``information`` of its
      variance, by eta squared or, for regression, the squared correlation, both corrected for
      chance. A neuron in a good place does not move either, but its output is informative.

    The second condition is measured every ``window`` epochs and after the last one.

    Layers whose foci are not trained have no stuck neurons. The count is logged per epoch as
    ``focus/stuck`` (and ``focus/stuck_<layer>`` if there are several layers) and kept in the record
    as ``measured.stuck``. A warning at the end says where the stuck neurons are and what to try.

    Args:
        window: number of epochs over which movement is measured; no neuron is stuck before.
        tolerance: largest movement of a neuron that counts as not moving, in apertures.
        information: smallest explained share of variance of a neuron that counts as informative.
        samples: number of training samples, evenly spaced, to measure that share on.
    """

    state = ("path", "blind", "which")

    def __init__(
        self,
        window: Annotated[int, Ge(1)] = 20,
        tolerance: float = 1.0,
        information: float = 0.01,
        samples: Annotated[int, Ge(2)] = 1024,
    ) -> None:
        super().__init__()
        self.window, self.tolerance = window, tolerance
        self.information, self.samples = information, samples
        self.which: dict[str, Tensor] = {}  # layer -> mask of its stuck neurons
        self.path: dict[str, Tensor] = {}  # layer -> foci (the last window + 1 epochs, n, 2d)
        self.blind: dict[str, Tensor] = {}  # layer -> mask of its uninformative neurons
        self._layers: dict[str, FocusedLinear] = {}

    @property
    def stuck(self) -> dict[str, int]:
        """Number of stuck neurons per layer."""
        return {name: int(flags.sum()) for name, flags in self.which.items()}

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Find the layers with trained foci."""
        self._layers = {
            name: layer
            for name, layer in focused_layers(pl_module).items()
            if layer.mu.requires_grad or layer.sigma.requires_grad
        }

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the initial foci, unless the run resumes."""
        for name, layer in self._layers.items():
            if name not in self.path:
                self.path[name] = _foci(layer)[None]
                self.blind[name] = torch.zeros(layer.out_features, dtype=torch.bool)
                self.which[name] = self.blind[name]

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Update the counts and log them."""
        if not self._layers:
            return
        done = trainer.current_epoch + 1
        if done % self.window == 0 or done == trainer.max_epochs:
            for name, share in self._information(pl_module).items():  # type: ignore[arg-type]
                self.blind[name] = share < self.information
        for name, layer in self._layers.items():
            path = torch.cat([self.path[name], _foci(layer)[None]])[-self.window - 1 :]
            self.path[name] = path
            width = layer.neuron_foci().sigma.detach().mean(1, True).float().cpu()
            moved = (path[-1] - path[0]).abs() / width
            still = (moved <= self.tolerance).all(1) & (len(path) > self.window)
            self.which[name] = still & self.blind[name]
        stuck = self.stuck
        counts = {f"focus/stuck_{name}": stuck[name] for name in stuck} if len(stuck) > 1 else {}
        values = {"focus/stuck": sum(stuck.values()), **counts}
        # The module logs these with its own metrics; log_dict would take longer than a step.
        trainer.callback_metrics.update({key: torch.tensor(float(n)) for key, n in values.items()})

    @torch.no_grad()
    def _information(self, module: FocusingModule) -> dict[str, Tensor]:
        """Share of the variance of each neuron (n,) that the targets explain, by layer."""
        net, precision = module.net, module.trainer.precision_plugin
        inputs, targets = module.batches["train"].evenly_spaced(self.samples)
        outputs: dict[str, list[Tensor]] = {name: [] for name in self._layers}
        handles = [
            layer.register_forward_hook(lambda _, __, out, name=name: outputs[name].append(out))
            for name, layer in self._layers.items()
        ]
        modes = {part: part.training for part in net.modules()}
        try:
            net.eval()
            for chunk in torch.split(inputs, module.batches["test"].size):
                with precision.forward_context():
                    net.forward(precision.convert_input(chunk))  # a compiled one has no hooks
        finally:
            for part, mode in modes.items():
                part.training = mode
            for handle in handles:
                handle.remove()
        targets = targets.cpu()  # Apple's GPUs have no doubles
        return {
            name: explained_variance(torch.cat(chunks).cpu().double(), targets)
            for name, chunks in outputs.items()
        }

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Warn of stuck neurons."""
        counts = [
            f"{count} of {len(self.which[name])} in {name}"
            for name, count in self.stuck.items()
            if count
        ]
        if counts and trainer.is_global_zero:
            log.warning(
                "Stuck foci: %s did not move in the last %d epochs, and their outputs say nothing "
                "about the targets. Try a larger model.sigma, model.mu=spread so that some start "
                "near informative inputs, optim.anneal_from, optim.mu_repulsion, or a larger "
                "optim.lr_mu.",
                ", ".join(counts),
                self.window,
            )

    def measurements(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Number of neurons in each layer, and which of them are stuck at the end."""
        layers = {
            name: {"neurons": len(flags), "stuck": flags.nonzero()[:, 0].tolist()}
            for name, flags in self.which.items()
        }
        return {"measured": {"stuck": layers}} if layers else {}


def explained_variance(values: Tensor, targets: Tensor) -> Tensor:
    """Share of the variance of each column that the targets explain, corrected for chance.

    Args:
        values: (N, n).
        targets: (N,): class numbers, or floats for regression.

    Returns:
        (n,): 0 for a constant column; negative if the targets explain less than chance would.
    """
    centred = values - values.mean(0)
    total = centred.square().sum(0)
    if targets.is_floating_point():
        groups = 2
        deviations = targets.to(values.dtype) - targets.mean().to(values.dtype)
        between = (deviations @ centred).square() / deviations.square().sum().clamp_min(1e-300)
    else:
        members = torch.nn.functional.one_hot(targets).to(values.dtype)
        members = members[:, members.any(0)]
        groups = members.shape[1]
        between = ((members.T @ centred).square() / members.sum(0)[:, None]).sum(0)
    freedom = max(len(values) - groups, 1)
    share = between / total.clamp_min(1e-300)
    adjusted = 1 - (1 - share) * (len(values) - 1) / freedom
    # A constant column may have a little variance from rounding.
    constant = total <= 1e-20 * values.square().sum(0)
    return torch.where(constant, 0.0, adjusted)


def _foci(layer: FocusedLinear) -> Tensor:
    """Copy of the trained coordinates of the foci on the CPU, (n, d) or (n, 2d)."""
    pairs = zip(layer.neuron_foci(), (layer.mu, layer.sigma), strict=True)
    trained = [values.detach() for values, parameter in pairs if parameter.requires_grad]
    return torch.cat(trained, dim=1).float().cpu()
