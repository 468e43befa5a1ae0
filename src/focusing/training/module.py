"""The Lightning module that trains a network."""

from __future__ import annotations

import math
import time
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from focusing.clock import running_seconds
from focusing.config import Optim
from focusing.data import Split
from focusing.data.batches import Batches, epoch_seed
from focusing.errors import DivergedError
from focusing.nn import FocusedAttention, FocusedLinear
from focusing.training.checkpoint import fingerprint
from focusing.training.metrics import detailed_metrics, loss_of, score
from focusing.training.optimizer import (
    anneal_sigma,
    build_optimizer,
    focus_penalty,
    set_learning_rates,
)
from focusing.training.resume import (
    EpochProgress,
    interrupted,
    load_mid_epoch,
    raise_if_interrupted,
    restore_mid_epoch,
    save_mid_epoch,
    seed_all,
)


class FocusingModule(pl.LightningModule):
    """Trains a network; metrics are computed and logged once per epoch.

    It makes the optimizer steps itself (manual optimization), and one batch of Lightning's may be
    a bundle of several batches. For a small network, Lightning's own loop or per-step logging would
    take several times as long as the training. Code that must run at every step belongs in a hook
    of the torch optimizer.

    The random numbers of an epoch depend only on the seed and the epoch, its learning rates only on
    the epoch. So a run that resumes after epoch e needs only the weights, the optimizer state and
    the metrics up to e. To resume in the middle of an epoch it also needs the state that
    :mod:`focusing.training.resume` saves.

    Args:
        net: the network.
        optim: the config group ``optim``.
        seed: seed of the run.

    Attributes:
        optimizer: the torch optimizer, without Lightning's wrapper, whose bookkeeping takes longer
            than a step of a small network.
        batches: batches by split name: ``"train"``, then the splits that are evaluated after every
            epoch. Set by :func:`focusing.training.trainer.fit`.
        series: values of all epochs so far, by metric name.
        test_metrics: see :func:`~focusing.training.metrics.detailed_metrics`; None before the last
            epoch has ended.
        progress: progress of the current epoch.
        seconds: wall time of the run so far, over all sessions, without pauses of a sweep.
        cpu_seconds: CPU time of the run so far, over all cores and sessions.
    """

    def __init__(self, net: nn.Module, optim: Optim, *, seed: int = 0) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.net, self.optim, self.seed = net, optim, seed
        self.optimizer = build_optimizer(net, optim)
        self.batches: dict[str, Batches] = {}
        self.series: dict[str, list[float]] = {}
        self.test_metrics: dict[str, Any] | None = None
        self.progress = EpochProgress()
        self.earlier_seconds, self._start = 0.0, running_seconds()
        self.earlier_cpu_seconds, self._cpu_start = 0.0, time.process_time()
        foci = (FocusedLinear, FocusedAttention)
        self._layers = [layer for layer in net.modules() if isinstance(layer, foci)]
        self._mid_epoch: dict[str, Any] | None = None  # saved by an interrupted session

    @property
    def seconds(self) -> float:  # noqa: D102 - see the class
        return self.earlier_seconds + running_seconds() - self._start

    @property
    def cpu_seconds(self) -> float:  # noqa: D102 - see the class
        return self.earlier_cpu_seconds + time.process_time() - self._cpu_start

    @property
    def step_progress(self) -> Any:
        """The counter behind ``trainer.global_step``."""
        return self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """The gradient scaler of ``16-mixed``, if that is the precision."""
        return getattr(self.trainer.precision_plugin, "scaler", None)

    def forward(self, inputs: Tensor) -> Tensor:
        """The network's output."""
        return self.net(inputs)  # type: ignore[no-any-return]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer, with its parameter groups."""
        return self.optimizer

    def transfer_batch_to_device(self, batch: Split, device: Any, dataloader_idx: int) -> Split:
        """Return the batch: it is on the device already."""
        return batch

    def on_train_start(self) -> None:
        """Load the state of an interrupted epoch, if there is one."""
        self._mid_epoch = load_mid_epoch(self)

    def on_train_epoch_start(self) -> None:
        """Set random numbers, learning rates and sigma for the epoch."""
        epoch = self.current_epoch
        seed_all(epoch_seed(self.seed, epoch, stream=1), self.device)
        self.batches["train"].epoch = epoch
        set_learning_rates(self.optimizer, self.optim, epoch)
        anneal_sigma(self._layers, self.optim, epoch)
        self.progress = EpochProgress()

    def training_step(self, bundle: Split, batch_idx: int) -> None:
        """Train on the batches of a bundle; step after every ``optim.accumulate`` of them."""
        optim, scaler = self.optim, self.scaler
        batches = list(bundle.chunks(optim.batch_size))
        ends_epoch = batch_idx + 1 == self.trainer.num_training_batches
        for index, batch in enumerate(batches, start=1):
            self._stop_if_interrupted()
            self._resume_mid_epoch()
            progress = self.progress
            progress.batches += 1
            if self._mid_epoch is not None:
                continue  # an earlier session trained on it
            progress.pending += 1
            output = self.net(batch.inputs)
            progress.add("train", output, batch.targets)
            loss = loss_of(output, batch.targets)
            if optim.sigma_l1 or optim.sigma_l2 or optim.mu_repulsion:
                loss = loss + focus_penalty(self._layers, optim)
            if optim.accumulate > 1:
                loss = loss / optim.accumulate
            torch.autograd.backward(loss if scaler is None else scaler.scale(loss))
            if progress.pending == optim.accumulate or (ends_epoch and index == len(batches)):
                self._step(scaler)

    def on_train_batch_end(self, *_: Any) -> None:
        """Resume, in case the interruption came after the last batch."""
        self._resume_mid_epoch()

    def _step(self, scaler: torch.amp.GradScaler | None) -> None:
        if self.optim.clip_value is not None:
            if scaler is not None:
                scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_value_(self.net.parameters(), self.optim.clip_value)
        if scaler is None:
            self.optimizer.step()
        else:  # skips the step if gradients have overflowed
            scaler.step(self.optimizer)
            scaler.update()
        self.optimizer.zero_grad()
        self.progress.pending = 0
        self.step_progress.increment_completed()  # as Lightning's wrapper does

    def _stop_if_interrupted(self) -> None:
        """Stop between two batches if a signal asked for it, and save the progress of the epoch."""
        if interrupted():
            if self.progress.batches and self._mid_epoch is None:
                save_mid_epoch(self)
            raise_if_interrupted()

    def _resume_mid_epoch(self) -> None:
        """Restore the interrupted epoch once the batches of the earlier session are skipped."""
        if self._mid_epoch is not None and self.progress.batches == self._mid_epoch["batches"]:
            restore_mid_epoch(self, self._mid_epoch)
            self._mid_epoch = None

    def validation_step(self, batch: Split, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Keep the network's outputs for a batch of an evaluated split."""
        self._stop_if_interrupted()
        _, *evaluated = self.batches
        self.progress.add(evaluated[dataloader_idx], self.net(batch.inputs), batch.targets)

    def on_train_epoch_end(self) -> None:
        """Compute and log the metrics of the epoch; Lightning calls this after validation."""
        outputs, self.progress = self.progress.outputs, EpochProgress()
        row = {
            f"{split}/{metric}": value
            for split, batches in outputs.items()
            for metric, value in score(*batches).items()
        }
        if self._layers:
            sigmas = [layer.sigma.flatten() for layer in self._layers]
            row["focus/sigma_mean"] = torch.cat(sigmas).mean().item()
        bad = [name for name, value in row.items() if not math.isfinite(value)]
        if bad:
            raise DivergedError(
                f"{bad[0]} is {row[bad[0]]} after epoch {self.current_epoch}: try a smaller "
                "optim.lr, or optim.clip_value=1."
            )
        for name, value in row.items():
            self.series.setdefault(name, []).append(value)
        if self.current_epoch + 1 == self.trainer.max_epochs and "test" in outputs:
            self.test_metrics = detailed_metrics(*outputs["test"])
        self.trainer.callback_metrics.update({k: torch.tensor(v) for k, v in row.items()})
        # Includes what callbacks logged. self.log would take half a millisecond per metric.
        logged = {name: float(value) for name, value in self.trainer.callback_metrics.items()}
        for logger in self.trainer.loggers:
            logger.log_metrics({**logged, **row, "epoch": self.current_epoch}, self.global_step)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the times, the metrics and the fingerprint of the run to a checkpoint."""
        checkpoint["run"] = fingerprint(self)
        checkpoint["seconds"], checkpoint["cpu_seconds"] = self.seconds, self.cpu_seconds
        checkpoint["series"] = {name: list(values) for name, values in self.series.items()}
        checkpoint["test_metrics"] = self.test_metrics

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore times and metrics; older checkpoints lack some of them."""
        self.earlier_seconds = checkpoint["seconds"]
        self.earlier_cpu_seconds = checkpoint.get("cpu_seconds", 0.0)
        self.series = {name: list(values) for name, values in checkpoint["series"].items()}
        self.test_metrics = checkpoint.get("test_metrics")
