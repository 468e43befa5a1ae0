"""Whether the state in a checkpoint fits the run that is to go on from it.

A file may load and yet lack keys, or hold tensors of other sizes: Lightning and torch would find
out in the middle of training, or not at all. So all is compared with what this run would write.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor

from focusing.errors import DamagedError
from focusing.results.store import set_aside
from focusing.training.checkpoint import load_checkpoint
from focusing.training.optimizer import build_optimizer
from focusing.validation import Wrong, mapping, number, numbers, whole

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)


def check_like(value: Any, like: Any) -> None:
    """Refuse a state that is not built as another: keys, lengths, types, shapes of tensors.

    Floating-point tensors may have another precision. Numbers may have another value, but a finite
    one, which is not below 0 where the other is not.

    Raises:
        Wrong: with the path of the first difference.
    """
    if isinstance(like, Tensor):
        _check_tensor(value, like)
    elif isinstance(like, dict):
        if not isinstance(value, dict) or value.keys() != like.keys():
            raise Wrong(f"has not the keys {', '.join(map(str, like))}")
        for key in like:
            _check_item(value, like, key)
    elif isinstance(like, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(like):
            raise Wrong(f"has not {len(like)} values")
        for place in range(len(like)):
            _check_item(value, like, place)
    elif isinstance(like, bool) or like is None or isinstance(like, str):
        if type(value) is not type(like):
            raise Wrong(f"is not {'null' if like is None else type(like).__name__}")
    elif isinstance(like, int):
        whole(min(like, 0))(value)
    elif isinstance(like, float):
        number(min(like, 0.0))(value)


def _check_item(value: Any, like: Any, key: Any) -> None:
    try:
        check_like(value[key], like[key])
    except Wrong as error:
        raise error.under(key) from None


def _check_tensor(value: Any, like: Tensor) -> None:
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        raise Wrong("is not a tensor")
    if value.shape != like.shape:
        raise Wrong(f"has shape {tuple(value.shape)}, not {tuple(like.shape)}")
    floats = value.is_floating_point() and like.is_floating_point()
    if value.dtype != like.dtype and not floats:
        raise Wrong(f"is of type {value.dtype}, not {like.dtype}")


def optimizer_like(module: FocusingModule) -> dict[str, Any]:
    """The state of the optimizer after a step, without its values and the memory for them.

    ``state`` is None for an optimizer that makes no step without them.
    """
    optimizer = build_optimizer(module.net, module.optim)
    for group in optimizer.param_groups:
        group["params"] = [
            torch.nn.Parameter(torch.empty_like(each, device="meta")) for each in group["params"]
        ]
        for each in group["params"]:
            each.grad = torch.empty_like(each)
    step: Any = type(optimizer).step
    try:
        getattr(step, "__wrapped__", step)(optimizer)  # without the hooks of those who count steps
    except Exception:  # each has reasons of its own
        return {**optimizer.state_dict(), "state": None}
    return optimizer.state_dict()


def check_optimizer(state: Any, like: Mapping[str, Any]) -> None:
    """Refuse the state of another optimizer; before the first step there is less of it.

    Raises:
        Wrong: with the path of the first difference.
    """
    groups = dict(like)
    moments = groups.pop("state")
    if not isinstance(state, dict) or not isinstance(state.get("state"), dict):
        raise Wrong("has no state")
    check_like({key: value for key, value in state.items() if key != "state"}, groups)
    for place, moment in state["state"].items() if moments is not None else ():
        if place not in moments:
            raise Wrong("is of no parameter", str(place), "state")
        given = {key: each for key, each in moments[place].items() if each is not None}
        try:
            present = {key: value for key, value in moment.items() if value is not None}
            check_like(present, given if present else {})
        except AttributeError:
            raise Wrong("is not an object", place, "state") from None
        except Wrong as error:
            raise error.under(place).under("state") from None
    pairs = zip(state["param_groups"], groups["param_groups"], strict=True)
    for at, (group, other) in enumerate(pairs):
        if group["params"] != other["params"]:
            raise Wrong("are other parameters", "params", at, "param_groups")


def check_callbacks(states: Any, module: FocusingModule, callbacks: list[pl.Callback]) -> None:
    """Refuse states that callbacks which can tell would not take.

    Raises:
        Wrong: with the path of the first difference.
    """
    if not isinstance(states, dict):
        raise Wrong("is not an object", "callbacks")
    for callback in callbacks:
        state = states.get(callback.state_key)
        check = getattr(callback, "check_state", None)
        if check is not None and state is not None:
            try:
                check(state, module)
            except Wrong as error:
                raise error.under(callback.state_key).under("callbacks") from None
            except Exception as error:  # it did not expect this
                reason = f"does not fit ({type(error).__name__})"
                raise Wrong(reason, callback.state_key, "callbacks") from None


def check_random(state: Any) -> None:
    """Refuse what no random generator would take; those of the process are left alone.

    Raises:
        Wrong: it is damaged.
    """
    try:
        random.Random().setstate(state["python"])  # noqa: S311 - nothing is drawn
        np.random.RandomState().set_state(state["numpy"])  # noqa: NPY002 - of the global kind
        torch.Generator().set_state(state["torch"])
    except Exception as error:  # each raises kinds of its own
        raise Wrong(f"is damaged ({type(error).__name__})", "random") from None


def check_checkpoint(content: Any, module: FocusingModule, trainer: pl.Trainer) -> None:
    """Refuse what is not a checkpoint of this run after an epoch.

    Raises:
        Wrong: with the path of the first difference.
    """
    if not isinstance(content, dict):
        raise Wrong("is not an object")
    like: dict[str, Any] = {
        "epoch": 0,
        "global_step": 0,
        "pytorch-lightning_version": "",
        "state_dict": dict(module.state_dict()),
        "lr_schedulers": [],
        "seconds": 0.0,
        "cpu_seconds": 0.0,
    }
    version = pl.__version__  # type: ignore[attr-defined]
    if content.get("pytorch-lightning_version") == version:  # Lightning upgrades others
        like["loops"] = trainer._checkpoint_connector._get_loops_state_dict()
    content = {"cpu_seconds": 0.0, **content}  # older ones do not have it
    check_like({key: content.get(key) for key in like}, like)
    states = content.get("optimizer_states")
    if not isinstance(states, list) or len(states) != 1:
        raise Wrong("is not one state", "optimizer_states")
    check_optimizer(states[0], optimizer_like(module))
    check_callbacks(content.get("callbacks"), module, trainer.callbacks)  # type: ignore[attr-defined]
    mapping(numbers)(content.get("series"))
    if not content["series"] or any(
        len(values) != content["epoch"] + 1 or None in values
        for values in content["series"].values()
    ):
        raise Wrong("has not a value for each epoch", "series")


def newest_checkpoint(folder: Path, module: FocusingModule, trainer: pl.Trainer) -> Path | None:
    """The checkpoint to go on from: the last, or else the best; None: the run begins again.

    What is damaged is kept aside, with a warning.
    """
    for path in (folder / "last.ckpt", folder / "best.ckpt"):
        if not path.exists():
            continue
        try:
            check_checkpoint(load_checkpoint(path), module, trainer)
        except DamagedError as error:
            _warn(error)
        except Wrong as error:
            _warn(DamagedError(path, f"does not fit this run: {error}"))
        else:
            return path
    return None


def _warn(error: DamagedError) -> None:
    kept = set_aside(error.path)
    log.warning("%s It is kept as %s; the run goes back.", error, kept.name)
