"""The two formats of torch that are programs: TorchScript and exported programs."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, fx, nn

from focusing.errors import UserError
from focusing.shipping.card import KEY, Card

EXTRA = f"{KEY}.json"
ONLY_TENSORS = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""With this variable torch.load unpickles tensors and nothing else, whoever calls it."""


def write_torchscript(path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    """For ``torch.jit.load``."""
    traced = torch.jit.trace(net, example, check_trace=False)  # type: ignore[no-untyped-call]
    whole = io.BytesIO()  # else the name of the file would be part of it
    torch.jit.save(traced, whole, _extra_files={EXTRA: card.to_json()})
    with zipfile.ZipFile(whole) as given, zipfile.ZipFile(path, "w") as kept:
        for member in given.infolist():
            if not member.filename.endswith(".debug_pkl"):  # paths of this machine
                kept.writestr(member, given.read(member))


def read_torchscript(path: Path) -> tuple[Callable[[Tensor], Tensor], Card]:
    """Made by :func:`write_torchscript`, and trusted: TorchScript may write files."""
    extra = {EXTRA: ""}
    net = torch.jit.load(path, map_location="cpu", _extra_files=extra)  # type: ignore[no-untyped-call]
    return net, Card.from_json(extra[EXTRA], path)


def refuse_weights(path: Path) -> None:
    """``pruned.pt`` is no network, though its name ends as that of one."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as file:
        if not any(name.endswith("/constants.pkl") for name in file.namelist()):
            raise UserError(
                f"{path} holds weights and no network: focusing export RUN_DIR --pruned makes "
                "one of what focusing prune left."
            )


def write_program(path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    """For ``torch.export.load``."""
    batch = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(net, (example,), dynamic_shapes=batch)
    for module in program.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:  # paths of this machine
                node.meta.pop("stack_trace", None)
                node.meta.pop("nn_module_stack", None)
    whole = io.BytesIO()  # else the name of the file would be part of it
    torch.export.save(program, whole, extra_files={EXTRA: card.to_json()})
    path.write_bytes(whole.getvalue())


def read_program(path: Path) -> tuple[Callable[[Tensor], Tensor], Card]:
    """Made by :func:`write_program`, and trusted: its graph may name any function of torch."""
    extra = {EXTRA: ""}
    with _only_tensors():
        program = torch.export.load(path, extra_files=extra)
    return program.module(), Card.from_json(extra[EXTRA], path)


@contextmanager
def _only_tensors() -> Iterator[None]:
    """Without the pickles that run code, to which ``torch.export.load`` resorts for tensors.

    Its opaque constants are still unpickled: this is a second fence, trust is the first.
    """
    before = os.environ.get(ONLY_TENSORS)
    os.environ[ONLY_TENSORS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ONLY_TENSORS]
        else:
            os.environ[ONLY_TENSORS] = before
