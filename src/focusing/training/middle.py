"""The middle of an epoch: kept when a signal stops a run, gone on from when the run resumes.

Lightning resumes at the beginning of an epoch. The module then lets the batches that are done pass
by without training on them, and puts this state back when it meets the first that is not. So
everything that counts or draws per batch (shuffling, augmentation, progress) needs no state of its
own.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from focusing.errors import DamagedError
from focusing.results.store import atomic_write, set_aside
from focusing.training.checkpoint import encode, load_checkpoint
from focusing.training.fitting_state import (
    check_callbacks,
    check_like,
    check_optimizer,
    check_random,
    optimizer_like,
)
from focusing.training.randomness import random_state, set_random_state
from focusing.validation import Wrong

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)


@dataclass
class EpochSoFar:
    """What the current epoch has done.

    Attributes:
        batches: trained on.
        pending: of them, whose gradients wait for an optimizer step.
        seen: outputs and targets of each split, for the epoch's metrics.
    """

    batches: int = 0
    pending: int = 0
    seen: dict[str, tuple[list[Tensor], list[Tensor]]] = field(default_factory=dict)

    def remember(self, name: str, output: Tensor, targets: Tensor) -> None:
        """Note what the network said to a batch."""
        outputs, expected = self.seen.setdefault(name, ([], []))
        outputs.append(output.detach())
        expected.append(targets)


def save_middle(module: FocusingModule) -> None:
    """Write all that training has changed since the epoch began.

    In validation that is the state at the end of the training part: validation, which changes
    nothing and draws nothing, is done again.
    """
    so_far = module.so_far
    state = {
        "epoch": module.current_epoch,
        "batches": so_far.batches,
        "pending": so_far.pending,
        "gradients": [each.grad for each in module.net.parameters()],
        # Joined: the pieces are views, and each would take its whole bundle into the file.
        "seen": [torch.cat(each) for each in so_far.seen["train"]],
        "net": module.net.state_dict(),
        "optimizer": module.stepper.state_dict(),
        "steps": module.step_progress.state_dict(),
        "random": random_state(module.device),
        "callbacks": {each.state_key: each.state_dict() for each in _callbacks(module)},
        "seconds": module.seconds,
        "cpu_seconds": module.cpu_seconds,
    }
    try:
        atomic_write(_path(module), encode(state))
    except OSError as error:  # the run stops all the same, and goes on from its last epoch
        log.warning("The middle of the epoch could not be saved: %s", error)


def load_middle(module: FocusingModule) -> dict[str, Any] | None:
    """Read what an earlier session left of the current epoch, if it did and it can be read."""
    path = _path(module)
    if not path.exists():
        return None
    try:
        state = load_checkpoint(path)
        _check(state, module)
    except OSError as error:
        log.warning("%s: the epoch begins again.", error)
        return None
    except ValueError as error:
        damage = DamagedError(path, f"does not fit this run: {error}")
    except DamagedError as error:
        damage = error
    else:
        return state if state["epoch"] == module.current_epoch else None
    kept = set_aside(path)
    log.warning("%s It is kept as %s; the epoch begins again.", damage, kept.name)
    return None


def _check(state: Any, module: FocusingModule) -> None:
    """Refuse what :func:`restore_middle` could not put back.

    Raises:
        Wrong: with the path of the first difference.
    """
    if not isinstance(state, dict):
        raise Wrong("is not an object")
    like = {
        "epoch": 0,
        "batches": 0,
        "pending": 0,
        "net": dict(module.net.state_dict()),
        "steps": module.step_progress.state_dict(),
        "seconds": 0.0,
        "cpu_seconds": 0.0,
    }
    state = {"cpu_seconds": 0.0, **state}  # older ones do not have it
    check_like({key: state.get(key) for key in like}, like)
    if not 1 <= state["batches"] <= module.batches["train"].steps:
        raise Wrong("is not a number of batches of this run", "batches")
    if state["pending"] >= max(module.optim.accumulate, 2):
        raise Wrong("is more than waits for a step", "pending")
    check_optimizer(state.get("optimizer"), optimizer_like(module))
    check_random(state.get("random"))
    check_callbacks(state.get("callbacks"), module, _callbacks(module))
    _check_lists(state, module)


def _check_lists(state: dict[str, Any], module: FocusingModule) -> None:
    parameters = list(module.net.parameters())
    gradients = state.get("gradients")
    if not isinstance(gradients, list) or len(gradients) != len(parameters):
        raise Wrong(f"are not {len(parameters)}", "gradients")
    for place, (gradient, parameter) in enumerate(zip(gradients, parameters, strict=True)):
        if gradient is not None:
            try:
                check_like(gradient, parameter)
            except Wrong as error:
                raise error.under(place).under("gradients") from None
    seen, split = state.get("seen"), module.batches["train"].split
    if not isinstance(seen, list) or len(seen) != 2 or not isinstance(seen[1], Tensor):
        raise Wrong("are not outputs and targets", "seen")
    targets = split.targets[:1].expand(len(seen[1]), *split.targets.shape[1:])
    check_like(seen[1], targets)
    if (
        not isinstance(seen[0], Tensor)
        or len(seen[0]) != len(targets)
        or seen[0].ndim not in (1, 2)
    ):
        raise Wrong("has other outputs than targets", "seen")


def restore_middle(module: FocusingModule, state: dict[str, Any]) -> None:
    """Put everything back as :func:`save_middle` found it."""
    outputs, targets = (each.to(module.device) for each in state["seen"])
    module.so_far = EpochSoFar(
        state["batches"], state["pending"], {"train": ([outputs], [targets])}
    )
    module.net.load_state_dict(state["net"])
    module.stepper.load_state_dict(state["optimizer"])
    module.step_progress.load_state_dict(state["steps"])
    for parameter, gradient in zip(module.net.parameters(), state["gradients"], strict=True):
        parameter.grad = None if gradient is None else gradient.to(parameter.device)
    for each in _callbacks(module):
        if kept := state["callbacks"].get(each.state_key):
            each.load_state_dict(kept)
    module.earlier = state["seconds"]
    module.earlier_cpu = state.get("cpu_seconds", 0.0)
    set_random_state(state["random"], module.device)


def _callbacks(module: FocusingModule) -> list[pl.Callback]:
    return module.trainer.callbacks  # type: ignore[attr-defined, no-any-return]


def _path(module: FocusingModule) -> Path:
    return Path(module.trainer.default_root_dir) / "checkpoints" / "interrupted.ckpt"
