"""``focusing export``: write a network to a file, verify it, and read such files."""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx, nn

from focusing.data import Batches
from focusing.errors import UserError
from focusing.models import Network, build_network
from focusing.nn import BandedLinear
from focusing.shipping.card import KEY, Card, allowed_outputs, describe_network
from focusing.validation import check_regular, format_bytes

if TYPE_CHECKING:  # an exported file is used without the code that trains
    from focusing.shipping.trained import Trained

SUFFIXES = {"onnx": ".onnx", "exported-program": ".pt2", "safetensors": ".safetensors"}
Forward = Callable[[Tensor], Tensor]
MAX_SAMPLES = 64
"""Test samples on which an exported file is compared with the network."""
TOLERANCE = 1e-4
"""Largest allowed difference, relative to the largest output."""
SMALL_NETWORK, MAX_COMPRESSION = 2**26, 1000
"""Bytes of a network that a file of any size may describe; for larger networks, the maximum ratio
of the network's to the file's size."""
PROGRAM = "exported-program"
"""A format that needs trust: the graph of an exported program can call ``torch.os.system``."""
EXTRA_FILE = f"{KEY}.json"
WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Environment variable that makes every torch.load unpickle tensors only."""


def run(args: argparse.Namespace) -> None:
    """Export the network of a run, and print a summary."""
    from focusing.shipping.prune import pruned_copy
    from focusing.shipping.trained import load_run

    trained = load_run(args.run, pruned=args.pruned)
    suffix = SUFFIXES[args.format]
    path = args.out or args.run / f"model{suffix}"
    if path.suffix != suffix:
        raise UserError(f"--out {path}: a file of this format ends in {suffix}.")
    net = trained.net
    if args.threshold is not None:
        if not net.focused_layers():
            raise UserError(f"--threshold: {args.run} has no focused layers to prune.")
        net = pruned_copy(net, args.threshold)
    exported = export_network(trained, net, path, kind=args.format, sparse=args.sparse)
    pruned = exported.card.pruned
    dropped = f", {100 * pruned:.1f} % of the connections dropped" if pruned else ""
    print(f"{path}: {path.stat().st_size / 1024:,.0f} KiB{dropped}.")
    if args.sparse:
        print(exported.tiling)
    samples = f"{exported.samples} test sample{'s' if exported.samples > 1 else ''}"
    print(f"It was run on {samples}: outputs differ by {exported.error:.1e} at most.")


class Exported(NamedTuple):
    """Result of an export.

    Attributes:
        card: the card in the file.
        samples: number of test samples on which the file was compared with the network.
        error: largest difference, relative to the largest output.
        tiling: a sentence about the tiles of the focused layers.
    """

    card: Card
    samples: int
    error: float
    tiling: str


def export_network(
    trained: Trained, net: Network, path: Path, *, kind: str, sparse: bool
) -> Exported:
    """Write a network to a file, run the file, and compare the outputs.

    Args:
        trained: the run that the network comes from.
        net: the network, possibly pruned.
        path: the file; it is kept only if the outputs agree.
        kind: a key of ``SUFFIXES``.
        sparse: compute focused layers in tiles.
    """
    test = trained.data.test
    samples = test.take(torch.arange(min(MAX_SAMPLES, len(test.targets))))
    [batch] = Batches(samples, MAX_SAMPLES, prepare=trained.data.prepare)
    fast = net.to_inference(sparse=sparse)
    card = describe_network(trained, net, fast)
    unfinished = path.with_name(f".part.{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished.unlink(missing_ok=True)  # it could be a link to any other file
    try:
        example = batch.inputs.new_zeros(2, *batch.inputs.shape[1:])
        write_exported(kind, unfinished, fast, example, card)
        error = _compare(unfinished, net, batch.inputs)
        if not error < TOLERANCE:
            raise UserError(
                f"{path} was not kept: its outputs differ from the network's by {error:.1e}."
            )
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return Exported(card, len(batch.inputs), error, _describe_tiling(net, fast))


@torch.no_grad()
def _compare(path: Path, net: Network, inputs: Tensor) -> float:
    """Largest relative difference, over a batch of one and a batch of many."""
    forward, _ = read_exported(path, trust=True)
    expected = net.eval()(inputs)
    expected = torch.cat([expected[:1], expected])
    outputs = torch.cat([forward(inputs[:1]), forward(inputs)])
    return float((outputs - expected).abs().max() / expected.abs().max().clamp_min(1e-12))


def _describe_tiling(net: Network, fast: nn.Module) -> str:
    focused = net.focused_layers()
    work = {
        name: layer.work
        for name, layer in fast.named_modules()
        if isinstance(layer, BandedLinear) and layer.work < 1 and name in focused
    }
    if not work:
        return "Tiles would not be faster: it is stored dense."
    sizes = {name: layer.weight.numel() for name, layer in focused.items()}
    products = sum(size * work.get(name, 1.0) for name, size in sizes.items())
    return (
        f"{len(work)} of {len(focused)} focused layers in tiles: "
        f"{100 * products / sum(sizes.values()):.0f} % of their products are left."
    )


def write_exported(kind: str, path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    """Write a network for inference, for batches of any size.

    Args:
        kind: a key of ``SUFFIXES``.
        path: the file.
        net: the network.
        example: an input batch of at least two samples; some formats store it.
        card: the card to put into the file.
    """
    with _quiet():
        _WRITERS[kind](path, net, example, card)


def read_exported(path: Path, *, trust: bool = False) -> tuple[Forward, Card]:
    """Read an exported network: its forward function and its card.

    Args:
        path: the file.
        trust: also read exported programs, which can run any code.
    """
    kinds = {suffix: kind for kind, suffix in SUFFIXES.items()}
    if path.suffix == ".pt":
        raise UserError(
            f"{path} holds weights and no network: focusing export RUN_DIR --pruned makes a file "
            "of what focusing prune left."
        )
    if path.suffix not in kinds:
        raise UserError(f"{path} is none of {', '.join(kinds)}, nor a run folder.")
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    check_regular(path)
    kind = kinds[path.suffix]
    if kind == PROGRAM and not trust:
        raise UserError(
            f"{path} is a program, which may do anything on this computer: add --trust if you "
            "know who made it, or use an .onnx or .safetensors file."
        )
    try:
        with _quiet():
            forward, card = _READERS[kind](path)
            _check_outputs(path, forward, card)
            return forward, card
    except UserError:
        raise
    except Exception as error:  # every library has its own errors for a damaged file
        reason = f"{type(error).__name__}: {error}".splitlines()[0].split(". ")[0].rstrip(".")
        raise UserError(f"{path} cannot be read as {kind} ({reason}).") from None


@torch.no_grad()
def _check_outputs(path: Path, forward: Forward, card: Card) -> None:
    """Reject a card that does not fit the network, before any inputs are read."""
    outputs = forward(card.prepare(np.zeros((1, *card.shape))))
    if outputs.dim() != 2 or outputs.shape[1] not in allowed_outputs(len(card.classes)):
        raise UserError(
            f"{path} has {outputs.shape[-1]} outputs, and its card {len(card.classes)} classes."
        )


def _write_onnx(path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    onnx = _import_extra("onnx")
    _import_extra("onnxscript")
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
    graphs = [model.graph, *model.functions]
    nodes = [node for graph in graphs for node in (graph, *graph.node)]
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    for item in (*nodes, *values):  # remove paths on this machine
        item.doc_string = ""
        del item.metadata_props[:]
    onnx.helper.set_model_props(model, {KEY: card.to_json()})
    onnx.save(model, path)


def _read_onnx(path: Path) -> tuple[Forward, Card]:
    runtime = _import_extra("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    card = Card.from_json(session.get_modelmeta().custom_metadata_map.get(KEY), path)
    name = session.get_inputs()[0].name

    def forward(inputs: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {name: inputs.numpy()})[0])

    return forward, card


def _write_program(path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    batch = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(net, (example,), dynamic_shapes=batch)
    for module in program.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:  # remove paths on this machine
                node.meta.pop("stack_trace", None)
                node.meta.pop("nn_module_stack", None)
    buffer = io.BytesIO()  # else the file would contain its own name
    torch.export.save(program, buffer, extra_files={EXTRA_FILE: card.to_json()})
    path.write_bytes(buffer.getvalue())


def _read_program(path: Path) -> tuple[Forward, Card]:
    """Read a trusted file: its graph may call any function of torch."""
    extra = {EXTRA_FILE: ""}
    with _weights_only():
        program = torch.export.load(path, extra_files=extra)
    return program.module(), Card.from_json(extra[EXTRA_FILE], path)


@contextmanager
def _weights_only() -> Iterator[None]:
    """Keep ``torch.export.load`` from unpickling code where it falls back to pickle for tensors.

    It still unpickles opaque constants, so this does not replace trust.
    """
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = before


def _write_safetensors(path: Path, net: nn.Module, example: Tensor, card: Card) -> None:
    safetensors = _import_extra("safetensors.torch")
    state = {name: value.contiguous() for name, value in net.state_dict().items()}
    # save_file would write a file that only its owner can read.
    path.write_bytes(safetensors.save(state, metadata={KEY: card.to_json()}))


def _read_safetensors(path: Path) -> tuple[Forward, Card]:
    """Build the network from the card, and load the weights."""
    with _import_extra("safetensors").safe_open(path, "pt") as file:
        card = Card.from_json((file.metadata() or {}).get(KEY), path)
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    model = dict(card.model)
    if "pretrained" in model:
        model |= {"pretrained": False, "weights": None}
    with torch.device("meta"):
        built = build_network(model)
    described, size = sum(weight.nbytes for weight in built.parameters()), path.stat().st_size
    if described > max(SMALL_NETWORK, MAX_COMPRESSION * size):  # before allocating it
        raise UserError(
            f"{path} has {format_bytes(size)}: too few for the network of "
            f"{format_bytes(described)} that it describes."
        )
    net = built.to_empty(device="cpu").to_inference()
    for name, (inputs, tiles) in card.tiles.items():
        prefix = f"{name}."
        own = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
        net.set_submodule(name, BandedLinear.from_tiles(inputs, tiles, own))
    net.load_state_dict(state)
    return net.eval(), card


def _import_extra(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(f"This needs {name}: pip install 'focusing[export]'.") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's deprecation warnings and its hints about optional packages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*torch.jit", DeprecationWarning)
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
            yield
    finally:
        logging.disable(before)


_WRITERS: dict[str, Callable[[Path, nn.Module, Tensor, Card], None]] = {
    "onnx": _write_onnx,
    PROGRAM: _write_program,
    "safetensors": _write_safetensors,
}
_READERS: dict[str, Callable[[Path], tuple[Forward, Card]]] = {
    "onnx": _read_onnx,
    PROGRAM: _read_program,
    "safetensors": _read_safetensors,
}
