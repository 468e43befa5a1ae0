"""What focus costs in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch

from focusing.callbacks.analysis import Analysis
from focusing.callbacks.layers import focused_layers
from focusing.validation import fields, numbers

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule


class Timing(Analysis):
    """Training and test time, and the ratio of a focused network to its dense twin.

    Times of two processes can be compared only on an idle machine. So the ratios come from one:
    when training is over, copies of the network and of its dense twin (the same layers without
    foci) take turns, in training steps and in tests. The record gets ``timing``:

    - ``epoch_seconds``: median over the epochs of this run, training batches only; ``epochs``: how
      many were timed. An epoch that was interrupted is not.
    - ``test_seconds``: per 1000 samples, of the network ``as_is`` and ``folded``.
    - ``step_seconds``: of a training step of the network ``as_is`` and of its ``dense`` twin.
    - ``ratio``: as it is over dense, ``train`` and ``test``: medians over the rounds; null for a
      dense network. ``quartiles``: of the same, to tell how sure they are.
    - ``device``, ``threads``, ``batch_size``, ``test_batch_size`` and ``rounds``.

    Args:
        rounds: turns of each; one more before them is not counted.
    """

    name = "timing"

    def __init__(self, rounds: int = 10) -> None:
        super().__init__()
        if rounds < 1:
            raise ValueError(f"rounds={rounds} must be at least 1.")
        self.rounds = rounds
        self.epochs: list[float] = []
        self._since: float | None = None

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        _wait(pl_module.device)
        self._since = time.perf_counter()

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validation ends the training part of an epoch."""
        self._stop(pl_module.device)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """If there was no validation."""
        self._stop(pl_module.device)

    def _stop(self, device: torch.device) -> None:
        if self._since is not None:
            _wait(device)
            self.epochs.append(time.perf_counter() - self._since)
            self._since = None

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """The twins take turns."""
        from focusing.training.twins import test_passes, training_steps

        focused = bool(focused_layers(module))
        training = self._take_turns(training_steps(module), module.device)
        testing = self._take_turns(test_passes(module), module.device)
        test = module.batches["test"]
        samples = min(test.size, len(test.split.targets))
        per_thousand = {name: median(each) * 1000 / samples for name, each in testing.items()}
        ratios = {
            "train": _quartiles(training["as_is"], training["dense"]) if focused else None,
            "test": _quartiles(testing["as_is"], testing["folded"]) if focused else None,
        }
        return {
            "device": str(module.device),
            "threads": torch.get_num_threads(),
            "batch_size": module.batches["train"].size,
            "test_batch_size": samples,
            "rounds": self.rounds,
            "epochs": len(self.epochs),
            "epoch_seconds": median(self.epochs) if self.epochs else None,
            "test_seconds": per_thousand,
            "step_seconds": {name: median(each) for name, each in training.items()},
            "ratio": {name: each and each[1] for name, each in ratios.items()},
            "quartiles": {name: each and [each[0], each[2]] for name, each in ratios.items()},
        }

    def _take_turns(
        self, actions: Mapping[str, Callable[[], Any]], device: torch.device
    ) -> dict[str, list[float]]:
        """Seconds of each action in each round; what disturbs a round disturbs all of them."""
        seconds: dict[str, list[float]] = {name: [] for name in actions}
        for _ in range(self.rounds + 1):
            for name, act in actions.items():
                _wait(device)
                begin = time.perf_counter()
                act()
                _wait(device)
                seconds[name].append(time.perf_counter() - begin)
        return {name: each[1:] for name, each in seconds.items()}

    def state_dict(self) -> dict[str, Any]:
        """Seconds of the epochs so far."""
        return {"epoch_seconds": list(self.epochs)}

    def check_state(self, state: Any, module: pl.LightningModule) -> None:
        """Refuse other times; see :mod:`focusing.training.fitting_state`."""
        fields({"epoch_seconds": numbers})(state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the checkpoint was written; an epoch that was interrupted does not count."""
        self.epochs, self._since = list(state_dict["epoch_seconds"]), None


def _quartiles(one: list[float], other: list[float]) -> list[float]:
    """First quartile, median and third quartile of the ratios, round by round."""
    ratios = torch.tensor(one, dtype=torch.float64) / torch.tensor(other, dtype=torch.float64)
    return torch.quantile(ratios, torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)).tolist()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":  # kernels run behind Python's back
        torch.cuda.synchronize(device)
