"""Follow the foci through training."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger

from focusing.callbacks.analysis import focused_layers
from focusing.nn import FocusedLinear
from focusing.training.trajectory import Trajectory

if TYPE_CHECKING:
    from focusing.drawing import LayerFoci

log = logging.getLogger(__name__)


class FocusTrajectory(pl.Callback):
    """Records mu and sigma of every focused layer; leaves ``focus.npz`` in the run folder.

    The file is written when training ends, also with an error; until then the records are in the
    checkpoints, so a killed run that resumes ends with all of them. What the file holds:
    :mod:`focusing.training.trajectory`.

    Loggers that take pictures (W&B, TensorBoard) get a figure of the foci of every layer at the
    end.

    Args:
        every: record every so many epochs; the start and the end are always recorded.
        histograms: log histograms of mu and sigma with every record.
        figure_every: log the figure every so many epochs too; 0: at the end only. Drawing takes
            about 0.2 s per layer.
        movie: ``"gif"`` or ``"mp4"`` (needs ffmpeg) leaves a film of the foci in ``figures/``.
        fps: pictures per second of the film.
    """

    def __init__(
        self,
        every: int = 1,
        histograms: bool = False,
        figure_every: int = 0,
        movie: str | None = None,
        fps: int = 10,
    ) -> None:
        if every < 1 or figure_every < 0 or fps < 1:
            raise ValueError(
                f"every={every} and fps={fps} must be at least 1, figure_every={figure_every} 0."
            )
        if movie not in (None, "gif", "mp4"):
            raise ValueError(f"movie={movie!r} must be null, gif or mp4.")
        self.every, self.histograms, self.figure_every = every, histograms, figure_every
        self.movie, self.fps = movie, fps
        self.trajectory = Trajectory()
        self._layers: dict[str, FocusedLinear] = {}

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look the layers up once."""
        self._layers = focused_layers(pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record where the foci start; a resumed run has done so."""
        if not self.trajectory.epochs:
            self._record(trainer, trainer.current_epoch)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the foci after the epoch, before its checkpoint is written."""
        done = trainer.current_epoch + 1
        if done % self.every == 0:
            self._record(trainer, done)
        if self.figure_every and done % self.figure_every == 0:
            self._log_figures(trainer)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the end and write everything; also when there was nothing left to train."""
        if not self._layers:
            return
        if self.trajectory.epochs[-1:] != [trainer.current_epoch]:
            self._record(trainer, trainer.current_epoch)
        self._log_figures(trainer)
        if not trainer.is_global_zero:
            return
        self._save(trainer)
        if self.movie:
            from focusing.drawing import film_layers

            folder = Path(trainer.default_root_dir) / "figures"
            film_layers(self._recorded_foci(), folder, self.movie, self.fps)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Write what there is."""
        if self.trajectory.epochs and self._layers and trainer.is_global_zero:
            try:
                self._save(trainer)
            except OSError as error:  # the exception that stopped the run matters more
                log.warning("focus.npz could not be written: %s", error)

    def measurements(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """How far the foci moved, as the record's ``focus``; see :meth:`Trajectory.movement`."""
        return {"focus": self.trajectory.movement(record["data"], self._layers)}

    def state_dict(self) -> dict[str, Any]:
        """The records so far."""
        return self.trajectory.state_dict()

    def check_state(self, state: Any, module: pl.LightningModule) -> None:
        """Refuse the records of other layers; see :mod:`focusing.training.checkpoint`."""
        self.trajectory.check_state(state, focused_layers(module))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from the records of the checkpoint."""
        self.trajectory.load_state_dict(state_dict)

    def _save(self, trainer: pl.Trainer) -> None:
        self.trajectory.save(Path(trainer.default_root_dir) / "focus.npz", self._layers)

    def _record(self, trainer: pl.Trainer, epoch: int) -> None:
        self.trajectory.record(epoch, self._layers)
        for logger in _picture_loggers(trainer) if self.histograms else ():
            for name, layer in self._layers.items():
                for parameter in ("mu", "sigma"):
                    values = getattr(layer, parameter).detach().float().cpu().numpy().ravel()
                    _log_histogram(logger, f"focus/{name}/{parameter}", values, trainer, epoch)

    def _log_figures(self, trainer: pl.Trainer) -> None:
        loggers = _picture_loggers(trainer)
        if not loggers or not trainer.is_global_zero:
            return
        from focusing.drawing import foci_figure  # matplotlib takes a second

        for foci in self._recorded_foci():
            figure = foci_figure(foci)
            for logger in loggers:
                _log_figure(logger, f"focus/{foci.layer}", figure, trainer)

    def _recorded_foci(self) -> list[LayerFoci]:
        from focusing.drawing import LayerFoci

        return [
            LayerFoci.of(name, layer, self.trajectory.epochs, self.trajectory.foci(name))
            for name, layer in self._layers.items()
        ]


def _picture_loggers(trainer: pl.Trainer) -> list[Logger]:
    kinds = (WandbLogger, TensorBoardLogger)
    return [logger for logger in trainer.loggers if isinstance(logger, kinds)]


def _log_figure(logger: Logger, key: str, figure: Any, trainer: pl.Trainer) -> None:
    if isinstance(logger, TensorBoardLogger):
        logger.experiment.add_figure(key, figure, trainer.global_step, close=False)
    elif isinstance(logger, WandbLogger):
        import wandb

        # An image, not the bare figure: W&B would turn that into a plotly chart.
        row: dict[str, Any] = {key: wandb.Image(figure), "epoch": trainer.current_epoch}
        logger.log_metrics(row, step=trainer.global_step)


def _log_histogram(logger: Logger, key: str, values: Any, trainer: pl.Trainer, epoch: int) -> None:
    if isinstance(logger, TensorBoardLogger):
        logger.experiment.add_histogram(key, values, trainer.global_step)
    elif isinstance(logger, WandbLogger):
        import wandb

        row: dict[str, Any] = {key: wandb.Histogram(values), "epoch": epoch}
        logger.log_metrics(row, step=trainer.global_step)
