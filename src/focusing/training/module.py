"""A network in training."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from focusing.config import Optim
from focusing.data.batches import Batches, epoch_seed
from focusing.data.dataset import Split
from focusing.errors import DivergedError
from focusing.nn import FocusedLinear
from focusing.training.annealing import anneal_sigma
from focusing.training.interruption import interrupted, raise_if_interrupted
from focusing.training.metrics import loss_of, score
from focusing.training.middle import EpochSoFar, load_middle, restore_middle, save_middle
from focusing.training.optimizer import build_optimizer, set_learning_rates
from focusing.training.randomness import seed_all
from focusing.training.repulsion import repulsion


class FocusingModule(pl.LightningModule):
    """Trains a network; every metric is computed and logged once per epoch.

    Steps are made by hand (manual optimization), and what Lightning sees as one batch may be a
    bundle of them: Lightning's own way, and a logged value per step, would cost a small network
    several times its training time. For what must happen at each step, torch's optimizer hooks
    are the place.

    An epoch begins from random numbers that depend on the seed and the epoch alone, and from
    learning rates that depend on the epoch alone. A run that resumes after epoch e therefore needs
    no more than the weights, the optimizer's state and the series of metrics up to e. A run that a
    signal stopped in the middle of an epoch also needs what :mod:`focusing.training.middle` kept.

    Args:
        net: the network; its focused layers are found.
        optim: how it learns.
        seed: of the run.
        evaluated: names of the validation loaders, in their order: ``"val"``, ``"test"``.

    Attributes:
        batches: what it is trained on (``"train"``) and scored on, by name; :func:`fit` sets it.
        series: metric name -> value of each epoch so far.
        so_far: what the current epoch has done.
        seconds: that the run has taken so far, in all its sessions; ``earlier``: in those before.
    """

    def __init__(
        self, net: nn.Module, optim: Optim, *, seed: int = 0, evaluated: Sequence[str] = ("test",)
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.net, self.optim, self.seed = net, optim, seed
        self.evaluated = tuple(evaluated)
        self.batches: dict[str, Batches] = {}
        self.series: dict[str, list[float]] = {}
        self.so_far = EpochSoFar()
        self.earlier, self._began = 0.0, time.monotonic()
        self.earlier_cpu, self._cpu_began = 0.0, time.process_time()
        self._layers = [each for each in net.modules() if isinstance(each, FocusedLinear)]
        self._middle: dict[str, Any] | None = None  # where an earlier session was interrupted

    @property
    def seconds(self) -> float:  # noqa: D102 - see the class
        return self.earlier + time.monotonic() - self._began

    @property
    def cpu_seconds(self) -> float:
        """Of all cores in all sessions: waiting for others does not count, nor do pauses."""
        return self.earlier_cpu + time.process_time() - self._cpu_began

    @property
    def steps(self) -> int:
        """Optimizer steps so far."""
        return self.trainer.global_step if self._trainer is not None else 0

    @property
    def step_progress(self) -> Any:
        """What makes ``trainer.global_step`` count optimizer steps."""
        return self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress

    def forward(self, inputs: Tensor) -> Tensor:
        """The network's output."""
        return self.net(inputs)  # type: ignore[no-any-return]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer, with its parameter groups."""
        return build_optimizer(self.net, self.optim)

    def transfer_batch_to_device(self, batch: Split, device: Any, dataloader_idx: int) -> Split:
        """Batches are on the device already."""
        return batch

    def on_train_start(self) -> None:
        """See whether an epoch was interrupted."""
        # Out of its wrapper, whose bookkeeping takes longer than a step of a small network.
        self.stepper: torch.optim.Optimizer = self.optimizers(use_pl_optimizer=False)  # type: ignore[assignment]
        self._middle = load_middle(self)

    def on_train_epoch_start(self) -> None:
        """Set everything that depends on the epoch."""
        epoch = self.current_epoch
        seed_all(epoch_seed(self.seed, epoch, stream=1), self.device)
        loader: Any = self.trainer.train_dataloader
        loader.epoch = epoch
        set_learning_rates(self.stepper, self.optim, epoch)
        anneal_sigma(self._layers, self.optim.anneal_from, self.optim.anneal_epochs, epoch)
        self.so_far = EpochSoFar()

    def training_step(self, bundle: Split, batch_idx: int) -> None:
        """The batches of a bundle; an optimizer step each, or every ``accumulate`` of them."""
        optim = self.optim
        batches = list(bundle.chunks(optim.batch_size))
        ends_epoch = batch_idx + 1 == self.trainer.num_training_batches
        for index, batch in enumerate(batches, start=1):
            self._stop_if_told()
            self._go_on_from_middle()
            so_far = self.so_far
            so_far.batches += 1
            if self._middle is not None:
                continue  # an earlier session trained on it
            so_far.pending += 1
            output = self.net(batch.inputs)
            so_far.remember("train", output, batch.targets)
            loss = loss_of(output, batch.targets)
            if optim.sigma_l1 or optim.sigma_l2 or optim.mu_repulsion:
                loss = loss + self._penalty()
            if optim.accumulate > 1:
                loss = loss / optim.accumulate
            torch.autograd.backward(loss)
            if so_far.pending == optim.accumulate or (ends_epoch and index == len(batches)):
                self._step()

    def on_train_batch_end(self, *_: Any) -> None:
        """The interruption may have come after the last batch."""
        self._go_on_from_middle()

    def _stop_if_told(self) -> None:
        """Between two batches, obey a signal; what it finds is worth keeping if it is new."""
        if interrupted():
            if self.so_far.batches and self._middle is None:
                save_middle(self)
            raise_if_interrupted()

    def _go_on_from_middle(self) -> None:
        """Once all batches of an earlier session have passed by, be where it was."""
        if self._middle is not None and self.so_far.batches == self._middle["batches"]:
            restore_middle(self, self._middle)
            self._middle = None

    def _penalty(self) -> Tensor:
        strengths = {1: self.optim.sigma_l1, 2: self.optim.sigma_l2}
        terms = [s * each.regularization(p) for p, s in strengths.items() for each in self._layers]
        if self.optim.mu_repulsion:
            terms += [self.optim.mu_repulsion * repulsion(each) for each in self._layers]
        return torch.stack(terms).sum() if terms else torch.zeros((), device=self.device)

    def _step(self) -> None:
        if self.optim.clip_value is not None:
            nn.utils.clip_grad_value_(self.net.parameters(), self.optim.clip_value)
        self.stepper.step()
        self.stepper.zero_grad()
        self.so_far.pending = 0
        self.step_progress.increment_completed()  # as Lightning's wrapper would

    def validation_step(self, batch: Split, batch_idx: int, dataloader_idx: int = 0) -> None:
        """One batch of data that is only looked at."""
        self._stop_if_told()
        self.so_far.remember(self.evaluated[dataloader_idx], self.net(batch.inputs), batch.targets)

    def on_train_epoch_end(self) -> None:
        """Score the epoch, which validation has ended, and hand the row to the loggers."""
        row = {
            f"{name}/{metric}": value
            for name, seen in self.so_far.seen.items()
            for metric, value in score(*seen).items()
        }
        self.so_far = EpochSoFar()
        if self._layers:
            sigmas = [each.sigma.flatten() for each in self._layers]  # of one axis or of two
            row["focus/sigma_mean"] = torch.cat(sigmas).mean().item()
        bad = [name for name, value in row.items() if not math.isfinite(value)]
        if bad:
            raise DivergedError(
                f"{bad[0]} is {row[bad[0]]} after epoch {self.current_epoch}: try a smaller "
                "optim.lr, or optim.clip_value=1."
            )
        for name, value in row.items():
            self.series.setdefault(name, []).append(value)
        self.trainer.callback_metrics.update({k: torch.tensor(v) for k, v in row.items()})
        # Directly: self.log would take half a millisecond per metric. With what callbacks logged.
        logged = {name: float(value) for name, value in self.trainer.callback_metrics.items()}
        for logger in self.trainer.loggers:
            logger.log_metrics({**logged, **row, "epoch": self.current_epoch}, self.global_step)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what only the module knows to a checkpoint."""
        checkpoint["seconds"], checkpoint["cpu_seconds"] = self.seconds, self.cpu_seconds
        checkpoint["series"] = {name: list(values) for name, values in self.series.items()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there."""
        self.earlier = checkpoint["seconds"]
        self.earlier_cpu = checkpoint.get("cpu_seconds", 0.0)  # older ones do not have it
        self.series = {name: list(values) for name, values in checkpoint["series"].items()}
