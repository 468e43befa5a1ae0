"""Record the windows of dynamic foci during training: ``windows.npz``."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytorch_lightning as pl
import torch
from annotated_types import Ge
from torch import Tensor

from focusing.callbacks.analysis import Resumable
from focusing.callbacks.focus_trajectory import log_picture, picture_loggers
from focusing.models import DynamicNetwork
from focusing.nn import WindowReader
from focusing.nn.dynamic import Saliency, Static
from focusing.results.arrays import write_arrays

log = logging.getLogger(__name__)

FILE = "windows.npz"
MIN_SPREAD = 0.01
"""Standard deviation of the centres, as a share of the frame, below which a warning is due."""
PATIENCE = 5
"""Epochs that a problem lasts before a warning: windows may start at the same position."""


class WindowTrajectory(Resumable):
    """Records the windows of dynamic foci on a few test samples, and writes ``windows.npz``.

    The file holds the samples (``images``, in [0, 255]), the ``epoch`` of each of the E records,
    and ``centre`` and ``extent`` of the windows, (E, samples, glimpses, d). A network without
    dynamic foci has no file. The callback warns, during training and at its end, if the windows
    have been the same for all samples for some epochs, or the loss at chance level.

    Args:
        samples: number of test samples, evenly spaced.
        early: additional records in the first epoch, in which windows move most.
    """

    state = ("epochs", "windows")

    def __init__(
        self, samples: Annotated[int, Ge(2)] = 24, early: Annotated[int, Ge(0)] = 10
    ) -> None:
        self.samples, self.early = samples, early
        self._focus: DynamicNetwork | WindowReader | None = None
        self._inputs = torch.empty(0)
        self.epochs: list[float] = []
        self.windows: list[Tensor] = []
        self._warned: dict[str, float] = {}  # problem -> epoch of its last warning

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Find the first dynamic foci and choose the samples."""
        kinds = (DynamicNetwork, WindowReader)  # a DynamicNetwork as a whole: it knows its axes
        self._focus = next((one for one in pl_module.modules() if isinstance(one, kinds)), None)
        if self._focus is not None:
            module: Any = pl_module
            self._inputs = module.batches["test"].evenly_spaced(self.samples).inputs

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the initial windows, unless the run resumes."""
        if not self.epochs:
            self._record(trainer.current_epoch)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Record the windows ``early`` times in the first epoch."""
        if self._focus is None or trainer.current_epoch:
            return
        count, total = batch_idx + 1, trainer.num_training_batches
        if count < total and count % math.ceil(total / (self.early + 1)) == 0:
            self._record(count / total)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the windows after the epoch, before its checkpoint is written, and warn once."""
        self._record(trainer.current_epoch + 1)
        if self.windows and trainer.is_global_zero:
            self._warn(pl_module)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the file, log its figure, and warn again of windows that do not work."""
        if not self.windows or not trainer.is_global_zero:
            return
        arrays = self._arrays()
        write_arrays(Path(trainer.default_root_dir) / FILE, arrays)
        self._log_figure(trainer, arrays)
        self._warn(pl_module, again=True)

    def _log_figure(self, trainer: pl.Trainer, arrays: dict[str, Any]) -> None:
        if not picture_loggers(trainer):
            return
        from focusing.window_drawing import in_plane, windows_figure  # matplotlib takes a second

        if in_plane(arrays):
            figure = windows_figure(arrays)
            log_picture(trainer, trainer.current_epoch, "figure", "windows", figure)

    def _arrays(self) -> dict[str, Any]:
        """Content of the file."""
        centre, extent = torch.stack(self.windows).float().cpu().unbind(1)
        low, high = self._inputs.amin(), self._inputs.amax()
        images = (255 * (self._inputs - low) / (high - low).clamp_min(1e-12)).round().byte()
        return {
            "images": images.cpu().numpy(),
            "epoch": np.array(self.epochs, dtype=float),
            "centre": centre.numpy(),
            "extent": extent.numpy(),
        }

    def _warn(self, pl_module: Any, *, again: bool = False) -> None:
        """Warn of each problem once; ``again``: unless that was in this epoch."""
        epoch = self.epochs[-1]
        for problem, sentence in self._problems(pl_module).items():
            if problem not in self._warned or (again and self._warned[problem] != epoch):
                log.warning(sentence)
                self._warned[problem] = epoch

    def _problems(self, pl_module: Any) -> dict[str, str]:
        """Problems that have lasted for some epochs, with a sentence on each."""
        if self.epochs[-1] < PATIENCE:
            return {}
        problems = {}
        finder = getattr(getattr(self._focus, "focus", self._focus), "finder", None)
        recent = torch.stack(self.windows[-PATIENCE:])[:, 0].float()
        still = recent.std(dim=1).amax(dim=0) < MIN_SPREAD  # (glimpses, d)
        axes = getattr(self._focus, "axes", range(still.shape[1]))  # along which windows move
        some = [
            f"window {one + 1} along axis {axis}"
            for one in range(len(still))
            for axis in axes
            if still[one, axis]
        ]
        if some and not isinstance(finder, Static):
            where = "" if len(some) == len(still) * len(axes) else f" ({', '.join(some)})"
            blob = ", or model.dynamic.start=blob" if isinstance(finder, Saliency) else ""
            problems["windows"] = (
                f"The windows of all samples coincide{where}: dynamic foci do not follow the "
                f"input. Try a smaller optim.lr_dynamic{blob}."
            )
        losses, classes = pl_module.series.get("train/loss") or [], pl_module.net.outputs
        if classes > 1 and losses and min(losses[-PATIENCE:]) > 0.98 * math.log(classes):
            problems["loss"] = "The loss is at chance: try a smaller optim.lr_dynamic and optim.lr."
        return problems

    def _spread(self) -> float:
        """Standard deviation of the centres over samples, along the axis where it is largest."""
        centre = self.windows[-1][0].float()
        return centre.std(dim=0).max().item()

    def measurements(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Spread of the windows over samples, and their mean extent at the start and the end."""
        if not self.windows or not bool(self.windows[-1].isfinite().all()):
            return {}
        first, last = (self.windows[at][1].float().mean().item() for at in (0, -1))
        windows = {"spread": self._spread(), "extent_first": first, "extent_last": last}
        return {"measured": {"windows": windows}}

    @torch.no_grad()
    def _record(self, epoch: float) -> None:
        if self._focus is not None:
            weights = next(self._focus.parameters())
            windows = self._focus.windows(self._inputs.to(weights))
            self.epochs.append(epoch)
            self.windows.append(torch.stack([windows.centre, windows.extent]).cpu())
