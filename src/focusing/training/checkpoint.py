"""Checkpoints: written after every epoch, and compared with the run that resumes from them.

A file may load and yet lack keys, or hold tensors of other sizes. Lightning and torch would notice
in the middle of training, or never. So :func:`check_checkpoint` compares its structure with what
this run would write.
"""

from __future__ import annotations

import io
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import CheckpointIO
from torch import Tensor, nn

from focusing.errors import DamagedError, printable
from focusing.results.record_schema import TEST_METRICS
from focusing.results.store import atomic_write, set_aside
from focusing.training.optimizer import build_optimizer, step_without_hooks
from focusing.validation import Wrong, check_regular, mapping, number, numbers, whole

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)


class EpochCheckpoint(pl.callbacks.Checkpoint):
    """Keeps ``last.ckpt``, and as ``best.ckpt`` the epoch whose score counts.

    Args:
        folder: where they go.
        is_best: tells from the series so far whether the epoch that just ended is the best.
    """

    def __init__(self, folder: Path, is_best: Callable[[dict[str, list[float]]], bool]) -> None:
        self.folder, self.is_best = folder, is_best

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the checkpoint; Lightning calls checkpoint callbacks after all others."""
        last, best = self.folder / "last.ckpt", self.folder / "best.ckpt"
        if self.is_best(pl_module.series):  # type: ignore[arg-type]
            # The best first: killed in between, a run repeats the epoch and writes both.
            trainer.save_checkpoint(best)
            _link(best, last)
        else:
            trainer.save_checkpoint(last)
        (self.folder / "interrupted.ckpt").unlink(missing_ok=True)  # the epoch is over


def chosen_checkpoint(config: Mapping[str, Any]) -> str:
    """Name of the file that holds the epoch which the config's protocol chose."""
    return "last.ckpt" if config["protocol"]["name"] == "last" else "best.ckpt"


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, which keeps this content when the first gets a new one."""
    temporary = target.with_name(f".{target.name}.part")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # a file system without links
        shutil.copyfile(source, temporary)
    temporary.replace(target)


class PlainCheckpointIO(CheckpointIO):
    """Writes checkpoints atomically, and reads only tensors and plain containers."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint."""
        # Not synced to the disk: a killed process loses nothing, and syncing would take longer
        # than an epoch of a small network.
        atomic_write(Path(path), encode(checkpoint), sync=False)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint; ``weights_only`` is always true."""
        return load_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Remove a checkpoint."""
        Path(path).unlink(missing_ok=True)


def encode(checkpoint: dict[str, Any]) -> memoryview:
    """The content of a checkpoint's file."""
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    return buffer.getbuffer()


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU without running any code from it."""
    check_regular(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    except Exception as error:  # torch raises many kinds for a file that is not its own
        if isinstance(error, OSError) and error.filename:  # it cannot be opened
            raise
        reason = printable(f"{type(error).__name__}: {error}".splitlines()[0], 200)
        raise DamagedError(path, f"is not a checkpoint that can be read ({reason})") from None


def newest_checkpoint(folder: Path, module: FocusingModule, trainer: pl.Trainer) -> Path | None:
    """The checkpoint to resume from: the last, or else the best; None: the run begins again."""

    def check(content: Any) -> None:
        check_checkpoint(content, module, trainer)

    for path in (folder / "last.ckpt", folder / "best.ckpt"):
        if path.exists() and load_checked(path, check, "the run goes back"):
            return path
    return None


def load_checked(
    path: Path, check: Callable[[Any], None], consequence: str
) -> dict[str, Any] | None:
    """Read a checkpoint that passes a check.

    Args:
        path: the file; if it is damaged it is kept aside, with a warning.
        check: raises a ValueError for what it refuses.
        consequence: ends the warning.
    """
    try:
        content = load_checkpoint(path)
        check(content)
        return content
    except ValueError as error:
        damage = DamagedError(path, f"does not fit this run: {error}")
    except DamagedError as error:
        damage = error
    log.warning("%s It is kept as %s; %s.", damage, set_aside(path).name, consequence)
    return None


def check_checkpoint(content: Any, module: FocusingModule, trainer: pl.Trainer) -> None:
    """Refuse what is not a checkpoint of this run after an epoch.

    Raises:
        Wrong: with the path of the first difference.
    """
    template: dict[str, Any] = {
        "epoch": 0,
        "global_step": 0,
        "pytorch-lightning_version": "",
        "state_dict": dict(module.state_dict()),
        "lr_schedulers": [],
        "seconds": 0.0,
    }
    if scaler := trainer.precision_plugin.state_dict():
        template["MixedPrecision"] = scaler
    check_keys(content, template, optional={"cpu_seconds": 0.0})  # older ones do not have it
    version = pl.__version__  # type: ignore[attr-defined]
    if content["pytorch-lightning_version"] == version:  # Lightning upgrades others
        check_keys(content, {"loops": trainer._checkpoint_connector._get_loops_state_dict()})
    states = content.get("optimizer_states")
    if not isinstance(states, list) or len(states) != 1:
        raise Wrong("is not one state", "optimizer_states")
    check_optimizer(states[0], module)
    check_callbacks(content.get("callbacks"), module, trainer.callbacks)  # type: ignore[attr-defined]
    TEST_METRICS(content.get("test_metrics"))
    mapping(numbers)(content.get("series"))
    if not content["series"] or any(
        len(values) != content["epoch"] + 1 or None in values
        for values in content["series"].values()
    ):
        raise Wrong("has not a value for each epoch", "series")


def check_keys(
    state: Any, template: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> None:
    """Compare some keys of a state with a template; see :func:`check_structure`.

    Args:
        state: may have further keys.
        template: keys that it must have.
        optional: keys that it may have.
    """
    if not isinstance(state, dict):
        raise Wrong("is not an object")
    expected = {**template, **{k: v for k, v in (optional or {}).items() if k in state}}
    check_structure({key: state.get(key) for key in expected}, expected)


def check_structure(state: Any, template: Any) -> None:
    """Refuse a state with other keys, lengths, types or tensor shapes than a template.

    Floating-point tensors may have another precision. Numbers may have another value, but a finite
    one, and not a negative one unless the template's is negative.

    Raises:
        Wrong: with the path of the first difference.
    """
    if isinstance(template, Tensor):
        _check_tensor(state, template)
    elif isinstance(template, dict | list | tuple):
        if isinstance(template, dict):
            if not isinstance(state, dict) or state.keys() != template.keys():
                raise Wrong(f"has not the keys {', '.join(map(str, template))}")
        elif not isinstance(state, list | tuple) or len(state) != len(template):
            raise Wrong(f"has not {len(template)} values")
        for key in template if isinstance(template, dict) else range(len(template)):
            with inside(key):
                check_structure(state[key], template[key])
    elif isinstance(template, bool) or template is None or isinstance(template, str):
        if type(state) is not type(template):
            raise Wrong(f"is not {'null' if template is None else type(template).__name__}")
    elif isinstance(template, int):
        whole(min(template, 0))(state)
    elif isinstance(template, float):
        number(min(template, 0.0))(state)


@contextmanager
def inside(*keys: str | int) -> Iterator[None]:
    """Let errors name the keys, the outermost first, that lead to what is checked here."""
    try:
        yield
    except Wrong as error:
        raise Wrong(error.reason, *error.path, *reversed(keys)) from None


def _check_tensor(state: Any, template: Tensor) -> None:
    if not isinstance(state, Tensor) or state.layout != torch.strided:
        raise Wrong("is not a tensor")
    if state.shape != template.shape:
        raise Wrong(f"has shape {tuple(state.shape)}, not {tuple(template.shape)}")
    floats = state.is_floating_point() and template.is_floating_point()
    if state.dtype != template.dtype and not floats:
        raise Wrong(f"is of type {state.dtype}, not {template.dtype}")


def check_optimizer(state: Any, module: FocusingModule) -> None:
    """Refuse the state of another optimizer; before the first step it may be incomplete.

    Raises:
        Wrong: with the path of the first difference.
    """
    if not isinstance(state, dict) or not isinstance(state.get("state"), dict):
        raise Wrong("has no state")
    groups = _optimizer_template(module)
    moments = groups.pop("state")
    check_structure({key: value for key, value in state.items() if key != "state"}, groups)
    for index, moment in state["state"].items() if moments is not None else ():
        with inside("state", index):
            if index not in moments:
                raise Wrong("is of no parameter")
            if not isinstance(moment, dict):
                raise Wrong("is not an object")
            present, expected = (
                {key: value for key, value in values.items() if value is not None}
                for values in (moment, moments[index])
            )
            check_structure(present, expected if present else {})
    for index, group in enumerate(state["param_groups"]):
        if group["params"] != groups["param_groups"][index]["params"]:
            raise Wrong("are other parameters", "params", index, "param_groups")


def _optimizer_template(module: FocusingModule) -> dict[str, Any]:
    """The optimizer's state after a step, on the meta device: no values, no memory.

    ``state`` is None for an optimizer that cannot step there.
    """
    optimizer = build_optimizer(module.net, module.optim)
    optimizer.state.clear()  # of the parameters with values
    fused = [group.get("fused") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if group.get("fused"):
            group["fused"] = None  # meta has no such kernel
        group["params"] = [
            nn.Parameter(torch.empty_like(parameter, device="meta"))
            for parameter in group["params"]
        ]
        for parameter in group["params"]:
            parameter.grad = torch.empty_like(parameter)
    try:
        step_without_hooks(optimizer)
        state = optimizer.state_dict()
    except Exception:  # optimizers differ in what they miss
        state = {**optimizer.state_dict(), "state": None}
    for group, value in zip(state["param_groups"], fused, strict=True):
        group |= {"fused": value} if value else {}
    return state


def check_callbacks(states: Any, module: FocusingModule, callbacks: list[pl.Callback]) -> None:
    """Refuse states that the callbacks' own ``check_state(state, module)`` refuses.

    Raises:
        Wrong: with the path of the first difference.
    """
    if not isinstance(states, dict):
        raise Wrong("is not an object", "callbacks")
    for callback in callbacks:
        state = states.get(callback.state_key)
        check = getattr(callback, "check_state", None)
        if check is not None and state is not None:
            with inside("callbacks", callback.state_key):
                try:
                    check(state, module)
                except Wrong:
                    raise
                except Exception as error:  # a state that the callback did not expect
                    raise Wrong(f"does not fit ({type(error).__name__})") from None
