"""Stop a run between two batches, and resume it bit-exactly, as if it had never stopped.

Lightning resumes at the beginning of an epoch, from the checkpoint of the previous one. When a
signal stops a run in the middle of an epoch, :func:`save_mid_epoch` saves the progress of that
epoch. When the run resumes, the module skips the batches that are done, without training on them,
and then calls :func:`restore_mid_epoch`. So shuffling, augmentation and progress bars, which count
or draw per batch, need no saved state.
"""

from __future__ import annotations

import json
import logging
import random
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor

from focusing.data import DataSet
from focusing.errors import UserError
from focusing.results.store import atomic_write, set_aside
from focusing.training.checkpoint import encode, fingerprint, load_verified
from focusing.validation import TEXT, make_validator, object_schema

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)

# Signals: SIGTERM and Ctrl-C ask the training loop to stop between two batches.

_received: list[int] = []


class Interrupted(SystemExit):
    """A signal stopped the run; the exit code is 128 + signum, as in a shell."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum


@contextmanager
def interruptible() -> Iterator[None]:
    """Let a signal ask the training loop to stop; a second signal stops it at once."""

    def handle(signum: int, frame: FrameType | None) -> None:
        if _received:
            raise Interrupted(signum)
        _received.append(signum)

    _received.clear()
    previous: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
        signums = (signal.SIGINT, signal.SIGTERM)
        previous = {signum: signal.signal(signum, handle) for signum in signums}
    try:
        yield
        raise_if_interrupted()
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
        _received.clear()


def interrupted() -> bool:
    """Whether a signal has asked the run to stop."""
    return bool(_received)


def raise_if_interrupted() -> None:
    """Raise :class:`Interrupted` if a signal has asked the run to stop."""
    if _received:
        raise Interrupted(_received[0])


# Data: a run resumes, or counts as finished, only with the data that it started with.

DATA_FILE = Path("checkpoints", "data.json")
"""In a run folder: source and fingerprint of the data, as there is no record before the end."""
check_data_file = make_validator(object_schema({"source": TEXT, "fingerprint": TEXT}))


def save_data_fingerprint(run_dir: Path, data: DataSet) -> None:
    """Write the file that :func:`check_resumed_data` reads."""
    facts = {"source": data.source, "fingerprint": data.fingerprint}
    atomic_write(run_dir / DATA_FILE, json.dumps(facts).encode())


def check_resumed_data(run_dir: Path, data: DataSet) -> None:
    """Refuse to resume from checkpoints that were trained on other data."""
    path = run_dir / DATA_FILE
    if not path.exists() or not any(path.parent.glob("*.ckpt")):
        return
    try:
        facts = json.loads(path.read_bytes())
        check_data_file(facts)
    except (ValueError, RecursionError):
        kept = set_aside(path)
        log.warning("%s is damaged: it is kept as %s, and the run goes on.", path, kept.name)
        return
    check_same_data(facts, data, run_dir, "resume=never begins again")


def check_same_data(facts: Mapping[str, Any], data: DataSet, run_dir: Path, remedy: str) -> None:
    """Refuse data whose fingerprint differs from the one in ``facts``."""
    if facts["fingerprint"] == data.fingerprint:
        return
    raise UserError(
        f"{run_dir} was trained on other data: {facts['source']}, fingerprint "
        f"{facts['fingerprint']}; now data={data.name} is {data.source}, fingerprint "
        f"{data.fingerprint}; {remedy}."
    )


# Random numbers: of Python, NumPy, torch and the GPU.


def seed_all(seed: int, device: torch.device) -> None:
    """Seed all global generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - other code may draw from the global generator
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a millisecond
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def random_state(device: torch.device) -> dict[str, Any]:
    """State of all global generators, as plain containers and tensors."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - see above
    state = {
        "python": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),  # type: ignore[attr-defined]
        "torch": torch.get_rng_state(),
    }
    if device.type != "cpu":
        state[device.type] = torch.get_device_module(device).get_rng_state(device)
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore a state from :func:`random_state`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002 - see above
    torch.set_rng_state(state["torch"])
    if device.type in state:  # the run may resume on another device
        torch.get_device_module(device).set_rng_state(state[device.type], device)


# The middle of an epoch.


@dataclass
class EpochProgress:
    """Progress of the current epoch.

    Attributes:
        batches: number of batches trained on.
        pending: number of batches since the last optimizer step.
        outputs: outputs and targets of all batches so far, by split, for the metrics.
    """

    batches: int = 0
    pending: int = 0
    outputs: dict[str, tuple[list[Tensor], list[Tensor]]] = field(default_factory=dict)

    def add(self, split: str, output: Tensor, targets: Tensor) -> None:
        """Add the network's output for a batch."""
        outputs, expected = self.outputs.setdefault(split, ([], []))
        outputs.append(output.detach())
        expected.append(targets)


def save_mid_epoch(module: FocusingModule) -> None:
    """Save everything that training has changed since the epoch began.

    A run that is stopped during validation repeats the validation, which changes nothing and draws
    no random numbers.
    """
    progress = module.progress
    state = {
        "run": fingerprint(module),
        "epoch": module.current_epoch,
        "batches": progress.batches,
        "pending": progress.pending,
        "gradients": [parameter.grad for parameter in module.net.parameters()],
        # Concatenated, because torch would save the whole bundle with each of these views.
        "seen": [torch.cat(values) for values in progress.outputs["train"]],
        "net": module.net.state_dict(),
        "optimizer": module.optimizer.state_dict(),
        "steps": module.step_progress.state_dict(),
        "random": random_state(module.device),
        "callbacks": {callback.state_key: callback.state_dict() for callback in _callbacks(module)},
        "seconds": module.seconds,
        "cpu_seconds": module.cpu_seconds,
    }
    if module.scaler is not None:
        state["scaler"] = module.scaler.state_dict()
    try:
        atomic_write(_path(module), encode(state))
    except OSError as error:  # the run stops anyway, and resumes from its last epoch
        log.warning("The middle of the epoch could not be saved: %s", error)


def load_mid_epoch(module: FocusingModule) -> dict[str, Any] | None:
    """Load what an earlier session of this run saved of the current epoch."""
    path = _path(module)
    if not path.exists():
        return None
    consequence = "the epoch begins again"
    try:
        state = load_verified(path, module, consequence)
    except OSError as error:
        log.warning("%s: %s.", error, consequence)
        return None
    return state if state and state["epoch"] == module.current_epoch else None


def restore_mid_epoch(module: FocusingModule, state: dict[str, Any]) -> None:
    """Restore what :func:`save_mid_epoch` saved."""
    outputs, targets = (values.to(module.device) for values in state["seen"])
    module.progress = EpochProgress(
        state["batches"], state["pending"], {"train": ([outputs], [targets])}
    )
    module.net.load_state_dict(state["net"])
    module.optimizer.load_state_dict(state["optimizer"])
    if module.scaler is not None:
        module.scaler.load_state_dict(state["scaler"])
    module.step_progress.load_state_dict(state["steps"])
    for parameter, gradient in zip(module.net.parameters(), state["gradients"], strict=True):
        parameter.grad = None if gradient is None else gradient.to(parameter.device)
    for callback in _callbacks(module):
        if callback_state := state["callbacks"].get(callback.state_key):
            callback.load_state_dict(callback_state)
    module.earlier_seconds = state["seconds"]
    module.earlier_cpu_seconds = state.get("cpu_seconds", 0.0)
    set_random_state(state["random"], module.device)


def _callbacks(module: FocusingModule) -> list[pl.Callback]:
    return module.trainer.callbacks  # type: ignore[attr-defined, no-any-return]


def _path(module: FocusingModule) -> Path:
    return Path(module.trainer.default_root_dir) / "checkpoints" / "interrupted.ckpt"
