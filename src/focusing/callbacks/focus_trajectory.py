"""Record the foci during training: ``focus.npz``.

Arrays of the file, for E records and focused layers with n neurons and m inputs in d dimensions:

=========================  ==========  =========================================================
``epoch``                  (E,)        epochs done at that record; 0 is the start
``<layer>/mu``             (E, n, d)   centres
``<layer>/sigma``          (E, n, d)   apertures
``<layer>/tau``            (m, d)      positions of the inputs
``<layer>/shown``          (k,)        neurons whose weights are stored: all, or 64 evenly spaced
``<layer>/weight_first``   (k, m)      their focused weights phi o W at the start
``<layer>/weight_last``    (k, m)      and at the end
``<layer>/focus``          ()          name of the focus function
``<layer>/normalizer``     ()          name of the normaliser
=========================  ==========  =========================================================
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from annotated_types import Ge
from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger
from torch import Tensor

from focusing.callbacks.analysis import focused_layers, sees_inputs
from focusing.nn import FocusedAttention, FocusedLinear
from focusing.results.arrays import evenly_spaced, write_arrays
from focusing.results.store import atomic_write

if TYPE_CHECKING:
    from focusing.drawing import LayerFoci

log = logging.getLogger(__name__)

MAX_STORED_NEURONS = 64
"""Most neurons per layer whose weights are stored; no figure shows more."""


class FocusTrajectory(pl.Callback):
    """Records mu and sigma of all focused layers, and writes ``focus.npz``.

    The file is written when training ends, also after an error. Until then the checkpoints hold the
    records, so that a run that is killed and resumed has all of them.

    W&B and TensorBoard get mean and standard deviation of mu and sigma of each layer, the learning
    rates, and figures of the foci.

    Args:
        every: epochs between two records; the start and the end are always recorded.
        histograms: log histograms of mu and sigma with each record.
        movie: ``"gif"`` writes an animation of the foci to ``figures/``.
    """

    def __init__(
        self,
        every: Annotated[int, Ge(1)] = 1,
        histograms: bool = False,
        movie: Literal["gif"] | None = None,
    ) -> None:
        self.every, self.histograms, self.movie = every, histograms, movie
        self.trajectory = Trajectory()
        self._layers: dict[str, FocusedLinear] = {}
        self._heads: dict[str, FocusedAttention] = {}
        self._sees_inputs = False

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Find the focused layers and attention heads."""
        self._layers, self._sees_inputs = focused_layers(pl_module), sees_inputs(pl_module)
        modules = getattr(pl_module, "net", pl_module).named_modules()
        self._heads = {name: head for name, head in modules if isinstance(head, FocusedAttention)}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the initial foci, unless the run resumes."""
        if not self.trajectory.epochs:
            self._record(trainer, trainer.current_epoch)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the foci after the epoch, before its checkpoint is written."""
        done = trainer.current_epoch + 1
        if done % self.every == 0:
            self._record(trainer, done)
        if done % max(1, (trainer.max_epochs or 0) // 10) == 0:  # drawing takes 0.2 s per layer
            self._log_figures(trainer)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the final foci, log the figures and write the files."""
        if not self._layers:
            return
        if self.trajectory.epochs[-1:] != [trainer.current_epoch]:
            self._record(trainer, trainer.current_epoch)
        self._log_figures(trainer)
        if not trainer.is_global_zero:
            return
        self._save(trainer)
        if self.movie:
            from focusing.drawing import foci_gif  # matplotlib takes a second

            folder = Path(trainer.default_root_dir) / "figures"
            folder.mkdir(parents=True, exist_ok=True)
            for foci in self._recorded_foci():
                if foci.dimensions <= 2:  # volumes have no animation
                    atomic_write(folder / f"foci_{foci.layer}.gif", foci_gif(foci), sync=False)

    def on_exception(self, trainer: pl.Trainer, *details: Any) -> None:
        """Write the records so far."""
        if self.trajectory.epochs and self._layers and trainer.is_global_zero:
            try:
                self._save(trainer)
            except OSError as error:  # do not hide the exception that stopped the run
                log.warning("focus.npz could not be written: %s", error)

    def measurements(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """``focus``: movement of the foci, see :meth:`Trajectory.movement`.

        Also ``measured.heads``: final mu and sigma of focused attention heads, if there are any.
        """
        heads = {
            name: {"mu": layer.mu.tolist(), "sigma": layer.sigma.tolist()}
            for name, layer in self._heads.items()
        }
        data = record["data"] if self._sees_inputs else {}
        movement = {"focus": self.trajectory.movement(data, self._layers)}
        return movement | ({"measured": {"heads": heads}} if heads else {})

    def state_dict(self) -> dict[str, Any]:
        """The records so far."""
        return self.trajectory.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the records of the checkpoint."""
        self.trajectory.load_state_dict(state_dict)

    def _save(self, trainer: pl.Trainer) -> None:
        self.trajectory.save(Path(trainer.default_root_dir) / "focus.npz", self._layers)

    def _record(self, trainer: pl.Trainer, epoch: int) -> None:
        self.trajectory.record(epoch, self._layers)
        for logger in picture_loggers(trainer):
            logger.log_metrics(self._statistics(trainer, epoch), step=trainer.global_step)
        for name, layer in self._layers.items() if self.histograms else ():
            for parameter in ("mu", "sigma"):
                values = getattr(layer, parameter).detach().float().cpu().numpy().ravel()
                log_picture(trainer, epoch, "histogram", f"focus/{name}/{parameter}", values)

    def _statistics(self, trainer: pl.Trainer, epoch: int) -> dict[str, float]:
        """Mean and standard deviation of the foci of each layer, and the learning rates."""
        row: dict[str, float] = {"epoch": epoch}
        for name, layer in self._layers.items():
            for parameter in ("mu", "sigma"):
                values = getattr(layer, parameter).detach().float()
                row[f"focus/{name}/{parameter}_mean"] = values.mean().item()
                row[f"focus/{name}/{parameter}_std"] = values.std(correction=0).item()
        for optimizer in trainer.optimizers:
            for index, group in enumerate(optimizer.param_groups):
                row[f"lr/{group.get('name', index)}"] = group["lr"]
        return row

    def _log_figures(self, trainer: pl.Trainer) -> None:
        if not picture_loggers(trainer) or not trainer.is_global_zero:
            return
        from focusing.drawing import foci_figure  # matplotlib takes a second

        for foci in self._recorded_foci():
            key, figure = f"focus/{foci.layer}", foci_figure(foci)
            log_picture(trainer, trainer.current_epoch, "figure", key, figure)

    def _recorded_foci(self) -> list[LayerFoci]:
        from focusing.drawing import LayerFoci

        recorded = {name: self.trajectory.arrays(name, self._layers[name]) for name in self._layers}
        return [LayerFoci.of(name, arrays) for name, arrays in recorded.items()]


def picture_loggers(trainer: pl.Trainer) -> list[Logger]:
    """Loggers of a trainer that accept images."""
    kinds = (WandbLogger, TensorBoardLogger)
    return [logger for logger in trainer.loggers if isinstance(logger, kinds)]


def log_picture(trainer: pl.Trainer, epoch: int, kind: str, key: str, content: Any) -> None:
    """Log a ``figure``, or values as a ``histogram``, to all loggers that accept images."""
    for logger in picture_loggers(trainer):
        if isinstance(logger, TensorBoardLogger):
            options = {"close": False} if kind == "figure" else {}  # other loggers need it, too
            add = getattr(logger.experiment, f"add_{kind}")
            add(key, content, trainer.global_step, **options)
        elif isinstance(logger, WandbLogger):
            import wandb

            # W&B would convert a bare figure to a plotly chart.
            wrap: Any = wandb.Image if kind == "figure" else wandb.Histogram
            row = {key: wrap(content), "epoch": epoch}
            logger.log_metrics(row, step=trainer.global_step)


class Trajectory:
    """Foci of some layers at several epochs."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self._foci: dict[str, list[Tensor]] = {}  # layer -> mu and sigma (2, n, d) of each record
        self._weight_first: dict[str, Tensor] = {}

    def record(self, epoch: int, layers: Mapping[str, FocusedLinear]) -> None:
        """Add the current foci; they replace records of the same or of later epochs."""
        if not self.epochs:
            self._weight_first = {name: _weights(layer) for name, layer in layers.items()}
        keep = sum(done < epoch for done in self.epochs)
        self.epochs = [*self.epochs[:keep], epoch]
        for name, layer in layers.items():
            foci = torch.stack(layer.neuron_foci()).detach().float().cpu()
            self._foci[name] = [*self._foci.get(name, ())[:keep], foci]

    def foci(self, name: str) -> tuple[Tensor, Tensor]:
        """Mu and sigma of a layer, both (E, n, d)."""
        mu, sigma = torch.stack(self._foci[name]).unbind(dim=1)
        return mu, sigma

    def movement(
        self, data: Mapping[str, Any], layers: Mapping[str, FocusedLinear]
    ) -> dict[str, dict[str, float]]:
        """Movement of the foci of each layer, for the record.

        Args:
            data: the field ``data`` of the record; empty if the first layer sees features or
                windows of the inputs, to which its ranges do not apply.
            layers: the layers, for the positions of their inputs.

        Returns:
            Per layer ``moved`` (mean distance of mu from its start), ``sigma_first`` and
            ``sigma_last`` (means) and ``widened`` (share of sigma that grew). Layers whose foci
            became NaN are left out. For the first layer also ``inside_first`` and ``inside_last``,
            the share of centres among the informative inputs, if these are known, and
            ``in_<domain>_first`` and ``in_<domain>_last``, if the inputs have domains.
        """
        movement = {}
        for name in self._foci:
            mu, sigma = self.foci(name)
            if not bool((mu[-1] + sigma[-1]).isfinite().all()):
                continue
            movement[name] = {
                "moved": torch.linalg.vector_norm(mu[-1] - mu[0], dim=-1).mean().item(),
                "sigma_first": sigma[0].mean().item(),
                "sigma_last": sigma[-1].mean().item(),
                "widened": (sigma[-1] > sigma[0]).float().mean().item(),
            }
            region = data.get("informative")
            first_layer = name == next(iter(self._foci)) and name in layers
            if region and first_layer and mu.shape[-1] == 1:
                line = layers[name].tau[:, 0].float().cpu()
                first, last = line[region[0]], line[region[1] - 1]
                inside = ((mu >= first) & (mu <= last)).float().mean(dim=(1, 2))[[0, -1]].tolist()
                movement[name] |= zip(("inside_first", "inside_last"), inside, strict=True)
            if first_layer and data.get("domains"):
                movement[name] |= _by_domain(mu, layers[name].tau, data["domains"])
        return movement

    def state_dict(self) -> dict[str, Any]:
        """Plain containers and tensors, for a checkpoint."""
        return {
            "epochs": list(self.epochs),
            "foci": {name: torch.stack(foci) for name, foci in self._foci.items()},
            "weight_first": dict(self._weight_first),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.epochs = list(state["epochs"])
        self._foci = {name: list(foci) for name, foci in state["foci"].items()}
        self._weight_first = dict(state["weight_first"])

    def save(self, path: Path, layers: Mapping[str, FocusedLinear]) -> None:
        """Write ``focus.npz`` with the final weights of the layers."""
        arrays: dict[str, Any] = {"epoch": np.array(self.epochs, dtype=np.int64)}
        for name, layer in layers.items():
            stored = self.arrays(name, layer)
            arrays |= {f"{name}/{key}": stored[key] for key in stored if key != "epoch"}
        write_arrays(path, arrays)

    def arrays(self, name: str, layer: FocusedLinear) -> dict[str, Any]:
        """Arrays of a layer for the file, with its current weights as the final ones."""
        mu, sigma = self.foci(name)
        return {
            "epoch": np.array(self.epochs, dtype=np.int64),
            "mu": mu.numpy(),
            "sigma": sigma.numpy(),
            "tau": layer.tau.detach().float().cpu().numpy(),
            "shown": evenly_spaced(layer.out_features, MAX_STORED_NEURONS),
            "weight_first": self._weight_first[name].numpy(),
            "weight_last": _weights(layer).numpy(),
            "focus": np.array(layer.focus),
            "normalizer": np.array(layer.normalizer),
        }


def _by_domain(mu: Tensor, tau: Tensor, domains: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """Share of the centres (E, n, d) in each domain at the start and the end.

    Domains divide the first axis.
    """
    line = tau[:, 0].float().cpu()
    shares = {}
    for domain, (start, stop) in domains.items():
        low = (line[start - 1] + line[start]) / 2 if start else -math.inf
        high = (line[stop - 1] + line[stop]) / 2 if stop < len(line) else math.inf
        inside = ((mu[..., 0] >= low) & (mu[..., 0] < high)).float().mean(dim=1)
        shares[f"in_{domain}_first"], shares[f"in_{domain}_last"] = inside[[0, -1]].tolist()
    return shares


@torch.no_grad()
def _weights(layer: FocusedLinear) -> Tensor:
    shown = evenly_spaced(layer.out_features, MAX_STORED_NEURONS)
    return layer.effective_weight()[shown].float().cpu()
