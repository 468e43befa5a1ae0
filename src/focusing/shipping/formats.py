"""The files that a network can be written to, and how each is run."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from focusing.errors import UserError
from focusing.instantiate import instantiate
from focusing.models import Network
from focusing.nn import BandedLinear
from focusing.shipping.card import KEY, Card
from focusing.shipping.card_check import outputs_of
from focusing.shipping.programs import (
    read_program,
    read_torchscript,
    refuse_weights,
    write_program,
    write_torchscript,
)
from focusing.validation import check_regular, format_bytes

Run = Callable[[Tensor], Tensor]
SMALL, MAX_FOLDED = 2**26, 1000
"""Bytes of a network that any file may describe, and how much smaller a pruned one may be."""


def write(kind: str, path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    """Write a network for inference; batches may have any size.

    Args:
        kind: a key of ``SUFFIXES``.
        path: the file.
        net: the network.
        example: inputs of at least two samples; some formats keep them.
        card: what travels with it.
    """
    with _quiet():
        _WRITE[kind](path, net, example, card)


def read(path: Path, *, trust: bool = False) -> tuple[Run, Card]:
    """A function that runs an exported network, and its card.

    Args:
        path: the file.
        trust: take programs too, which can do more than to compute outputs.
    """
    kinds = {suffix: kind for kind, suffix in SUFFIXES.items()}
    if path.suffix not in kinds:
        raise UserError(f"{path} is none of {', '.join(kinds)}, nor a run folder.")
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    check_regular(path)
    kind = kinds[path.suffix]
    if kind == "torchscript":
        refuse_weights(path)
    if kind in PROGRAMS and not trust:
        raise UserError(
            f"{path} is a program, which may do anything on this computer: add --trust if you "
            "know who made it, or use an .onnx or .safetensors file."
        )
    try:
        with _quiet():
            run, card = _READ[kind](path)
            _try_out(path, run, card)
            return run, card
    except UserError:
        raise
    except Exception as error:  # each library has errors of its own for a damaged file
        reason = f"{type(error).__name__}: {error}".splitlines()[0].split(". ")[0].rstrip(".")
        raise UserError(f"{path} cannot be read as {kind} ({reason}).") from None


@torch.no_grad()
def _try_out(path: Path, run: Run, card: Card) -> None:
    """A card of another network is better found now than in the middle of a run."""
    outputs = run(card.prepare(np.zeros((1, *card.shape))))
    if outputs.dim() != 2 or outputs.shape[1] not in outputs_of(len(card.classes)):
        raise UserError(
            f"{path} has {outputs.shape[-1]} outputs, and its card {len(card.classes)} classes."
        )


def _write_onnx(path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    onnx = _extra("onnx")
    _extra("onnxscript")
    program = torch.onnx.export(
        net,
        (example,),
        input_names=["input"],
        output_names=["output"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        verbose=False,
    )
    assert program is not None  # noqa: S101 - for the type checker
    model = program.model_proto
    _without_traces(model)
    onnx.helper.set_model_props(model, {KEY: card.to_json()})
    onnx.save(model, path)


def _without_traces(model: Any) -> None:
    """Remove from each node where it comes from: paths of this machine."""
    for graph in (model.graph, *model.functions):
        for each in (graph, *graph.node):
            each.doc_string = ""
            del each.metadata_props[:]
    for each in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        each.doc_string = ""
        del each.metadata_props[:]


def _read_onnx(path: Path) -> tuple[Run, Card]:
    runtime = _extra("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    card = Card.from_json(session.get_modelmeta().custom_metadata_map.get(KEY), path)
    name = session.get_inputs()[0].name

    def run(inputs: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {name: inputs.numpy()})[0])

    return run, card


def _write_safetensors(path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    torch_side = _extra("safetensors.torch")
    state = {name: value.contiguous() for name, value in net.state_dict().items()}
    # save_file would make a file that only its owner may read.
    path.write_bytes(torch_side.save(state, metadata={KEY: card.to_json()}))


def _read_safetensors(path: Path) -> tuple[Run, Card]:
    """The weights alone; the network is built again from the card."""
    with _extra("safetensors").safe_open(path, "pt") as file:
        card = Card.from_json((file.metadata() or {}).get(KEY), path)
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    model = dict(card.model)
    if "pretrained" in model:
        model |= {"pretrained": False, "weights": None}
    with torch.device("meta"):
        built = instantiate(model, Network)
    _check_honest(path, sum(each.nbytes for each in built.parameters()))
    net = built.to_empty(device="cpu").to_inference()
    for name, (inputs, tiles) in card.tiles.items():
        prefix = f"{name}."
        own = {
            key.removeprefix(prefix): value
            for key, value in state.items()
            if key.startswith(prefix)
        }
        net.set_submodule(name, BandedLinear.from_tiles(inputs, tiles, own))
    net.load_state_dict(state)
    return net.eval(), card


def _check_honest(path: Path, described: int) -> None:
    """Refuse a small file that describes a huge network, before it has memory."""
    there = path.stat().st_size
    if described > max(SMALL, MAX_FOLDED * there):
        raise UserError(
            f"{path} has {format_bytes(there)}: too few for the network of "
            f"{format_bytes(described)} that it describes."
        )


def _extra(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(f"This needs {name}: pip install 'focusing[export]'.") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says about its own future, and about packages that nobody needs."""
    names = ("torch.onnx._internal.exporter._registration", "torch.export")
    logs = [logging.getLogger(name) for name in names]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*torch.jit", DeprecationWarning)
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
            # Checks of shapes are traced as if they always passed; the file is run afterwards.
            warnings.filterwarnings("ignore", "Converting a tensor to a Python boolean")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


SUFFIXES = {
    "onnx": ".onnx",
    "torchscript": ".pt",
    "exported-program": ".pt2",
    "safetensors": ".safetensors",
}
PROGRAMS = ("torchscript", "exported-program")
"""TorchScript can write files; the graph of an exported program can name ``torch.os.system``."""
_WRITE: dict[str, Callable[[Path, nn.Module, Tensor, Card], None]] = {
    "onnx": _write_onnx,
    "torchscript": write_torchscript,
    "exported-program": write_program,
    "safetensors": _write_safetensors,
}
_READ: dict[str, Callable[[Path], tuple[Run, Card]]] = {
    "onnx": _read_onnx,
    "torchscript": read_torchscript,
    "exported-program": read_program,
    "safetensors": _read_safetensors,
}
