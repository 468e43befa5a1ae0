"""``focusing doctor``: report on this machine, and test training on every device."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor, nn

from focusing import FocusedLinear, __version__
from focusing.callbacks.timing import take_turns, training_step
from focusing.config import Optim, data_dir
from focusing.data import Split, synthetic
from focusing.data.sources import catalogue, find
from focusing.models import MLP, focused_mlp
from focusing.nn.ops import available_backends
from focusing.results.record import git_state, machine
from focusing.sweep.local import cpu_count
from focusing.training.checkpoint import load_checkpoint
from focusing.training.module import FocusingModule
from focusing.training.trainer import build_trainer, fit
from focusing.training.wandb_run import offline_reason
from focusing.validation import format_bytes, machine_memory

STYLES = {"ok": "green", "slow": "yellow", "broken": "bold red", "absent": "dim"}
MAX_ERROR = 1e-4
"""Largest error of a float32 engine, relative to the largest value of the float64 reference."""
MAX_RATIO = 2.5
"""A focused step counts as slow if it takes longer than this many dense steps."""
ROUNDS = 15
"""Timed steps per network."""
OPTIM = Optim("SGD", lr=0.01, lr_mu=0.01, lr_sigma=0.001, momentum=0.9, batch_size=128)
REPORT = "Open an issue with the output of focusing doctor."


@dataclass(frozen=True)
class Finding:
    """One row of the report.

    Attributes:
        subject: what was examined.
        status: ``"ok"``, ``"slow"``, ``"broken"``, or ``"absent"`` for optional things.
        detail: the result.
        remedy: what to do about it.
    """

    subject: str
    status: str
    detail: str
    remedy: str = ""


def run(args: argparse.Namespace) -> None:
    """Print the findings; exit with 1 if something is broken."""
    console = Console(soft_wrap=True, stderr=args.json)
    with console.status("Testing, about ten seconds a device"):
        findings = [*inspect_machine(), *(row for device in devices() for row in self_test(device))]
    if args.json:
        rows = [asdict(finding) for finding in findings]
        about = {"focusing": __version__, "git": git_state(), "machine": machine()}
        print(json.dumps({**about, "status": overall_status(findings), "findings": rows}, indent=1))
    else:
        console.print(findings_table(findings))
    if overall_status(findings) == "broken":
        sys.exit(1)


def overall_status(findings: Iterable[Finding]) -> str:
    """The overall status."""
    present = {finding.status for finding in findings}
    return next((status for status in ("broken", "slow") if status in present), "ok")


def findings_table(findings: Iterable[Finding]) -> Table:
    """Format the findings for a terminal."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("", "status", "what was found", "what to do"):
        grid.add_column(title, overflow="fold")
    for row in findings:
        status = f"[{STYLES[row.status]}]{'-' if row.status == 'absent' else row.status}[/]"
        grid.add_row(row.subject, status, escape(row.detail), escape(row.remedy))
    return grid


def inspect_machine() -> Iterator[Finding]:
    """Report on software, processor, memory, GPUs, folders and services."""
    about = machine()
    yield Finding("focusing", "ok", f"{__version__} on Python {sys.version.split()[0]}")
    built = torch.version.cuda or torch.version.hip
    yield Finding("torch", "ok", f"{torch.__version__}, built for {built or 'CPUs'}")
    cores = f"{cpu_count()} of {about['cores']} cores, {about['threads']} threads"
    yield Finding("processor", "ok", f"{about['processor']}, {cores}")
    yield Finding("memory", "ok", format_bytes(machine_memory()))
    yield from _gpus()
    yield _package("triton", remedy="pip install triton" if _accelerator() else "")
    yield _package("numba", remedy="pip install 'focusing[cpu]'")
    compiler = next((name for name in ("c++", "g++", "clang++", "cl") if shutil.which(name)), None)
    reason = "trainer.compile=true needs one on a CPU"
    yield Finding("C++ compiler", "ok" if compiler else "absent", compiler or reason)
    yield _data_folder()
    why = offline_reason(timeout=2.0)
    yield Finding("W&B", "absent" if why else "ok", why or "a key, and the server answers")
    slurm = shutil.which("sbatch")
    yield Finding("SLURM", "ok" if slurm else "absent", slurm or "no sbatch")
    yield _package("ray")


def _accelerator() -> torch.device | None:
    return torch.accelerator.current_accelerator(check_available=True)


def devices() -> list[torch.device]:
    """The CPU and all accelerators that torch can use."""
    own = _accelerator()
    count = torch.accelerator.device_count() if own else 0
    return [torch.device("cpu"), *(torch.device(own.type, i) for i in range(count) if own)]


def _gpus() -> Iterator[Finding]:
    own = _accelerator()
    if own is None:
        driver, built = shutil.which("nvidia-smi") or shutil.which("rocminfo"), torch.version.cuda
        if driver and built:
            text = f"torch for CUDA {built} sees no GPU, although {driver} exists"
            yield Finding("GPU", "broken", text, "Update the driver, or install a matching torch.")
        elif driver:
            yield Finding("GPU", "slow", "torch is built for CPUs", "Install torch for this GPU.")
        else:
            yield Finding("GPU", "absent", "none")
        return
    for device in devices()[1:]:
        text = own.type
        if own.type == "cuda":
            about = torch.cuda.get_device_properties(device)
            text = f"{about.name}, sm_{about.major}{about.minor}"
            text = f"{text}, {format_bytes(about.total_memory)}, CUDA {torch.version.cuda}"
        yield Finding(str(device), "ok", text)


def _package(name: str, remedy: str = "") -> Finding:
    """Report on a package; one with a remedy makes training faster."""
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "slow" if remedy else "absent", "not installed", remedy)


def _data_folder() -> Finding:
    folder = Path(data_dir()).expanduser()
    place = next(path for path in (folder, *folder.parents) if path.exists())
    here = [name for name, entry in catalogue().items() if find(entry, folder)]
    free = format_bytes(shutil.disk_usage(place).free)
    detail = f"{folder}: {', '.join(here) or 'no data sets yet'}; {free} free"
    if not os.access(place, os.W_OK):
        remedy = "Set FOCUSING_DATA_DIR to a folder of your own to download data sets."
        return Finding("data", "ok" if here else "slow", f"{detail}; read-only", remedy)
    return Finding("data", "ok", detail)


def self_test(device: torch.device) -> Iterator[Finding]:
    """Test on a device what a run does, in about ten seconds; a check that raises is broken."""
    for check in (check_engines, check_steps, check_checkpoint, check_precision):
        start = time.perf_counter()
        try:
            for finding in check(device):
                yield replace(finding, subject=f"{device} {finding.subject}")
        except Exception as error:
            subject = f"{device} {check.__name__.removeprefix('check_')}"
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            seconds = f"after {time.perf_counter() - start:.1f} s"
            yield Finding(subject, "broken", f"{text} ({seconds})", REPORT)


def check_engines(device: torch.device) -> Iterator[Finding]:
    """Compare outputs and gradients of every engine with the float64 reference on the CPU."""
    for backend in available_backends(device):
        error = 0.0
        for topology in (None, (28, 28)):
            torch.manual_seed(0)
            layer = FocusedLinear(784, 100, topology=topology, sigma=0.1, backend=backend)
            x = torch.randn(32, 784)
            expected = _values_and_gradients(layer, "reference", x.double())
            measured = _values_and_gradients(layer, backend, x.to(device))
            for value, truth in zip(measured, expected, strict=True):
                gap = (value.cpu().double() - truth).abs().max() / truth.abs().max()
                error = max(error, gap.item())
        good = error < MAX_ERROR  # false for NaN
        status, remedy = ("ok", "") if good else ("broken", f"Use model.backend=torch. {REPORT}")
        yield Finding(f"engine {backend}", status, f"error {error:.1e}", remedy)


def _values_and_gradients(layer: FocusedLinear, backend: str, x: Tensor) -> list[Tensor]:
    layer.backend = backend
    layer.to(x)
    y = layer(x)
    return [y, *torch.autograd.grad(y.square().sum(), list(layer.parameters()))]


def check_steps(device: torch.device) -> Iterator[Finding]:
    """Time steps of the dense and the focused MNIST network, interleaved."""
    torch.manual_seed(0)
    nets: dict[str, nn.Module] = {
        "dense": MLP(784, 10, [800, 800]),
        "focused": focused_mlp(784, 10, hidden=[800, 800]),
    }
    inputs = torch.randn(OPTIM.batch_size, 784, device=device)
    batch = Split(inputs, torch.arange(OPTIM.batch_size, device=device) % 10)
    actions = {
        name: training_step(net.to(device).train(), OPTIM, batch) for name, net in nets.items()
    }
    seconds = {name: median(turns) for name, turns in take_turns(actions, device, ROUNDS).items()}
    if not all(value.isfinite().all() for net in nets.values() for value in net.parameters()):
        raise ArithmeticError("weights are not finite after a few steps")
    ratio = seconds["focused"] / seconds["dense"]
    shown = ", ".join(f"{name} {1000 * value:.2f} ms" for name, value in seconds.items())
    remedy = f"Install what is missing above, or try again when the machine is idle. {REPORT}"
    status, remedy = ("slow", remedy) if ratio > MAX_RATIO else ("ok", "")
    yield Finding("steps", status, f"{shown} a step, ratio {ratio:.2f}", remedy)


def check_checkpoint(device: torch.device) -> Iterator[Finding]:
    """Train an epoch, read the checkpoint back, and resume from it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = _fit(device, folder, epochs=1)
        saved = load_checkpoint(folder / "checkpoints" / "last.ckpt")["state_dict"]
        for key, value in first.net.state_dict().items():
            if not torch.equal(value.cpu(), saved[f"net.{key}"]):
                raise RuntimeError("what was read is not what was written")
        second = _fit(device, folder, epochs=2)
    if {key: values[:1] for key, values in second.series.items()} != first.series:
        raise RuntimeError("the run was not resumed")
    yield Finding("checkpoint", "ok", "written, read, and trained on")


def check_precision(device: torch.device) -> Iterator[Finding]:
    """Train an epoch in each mixed precision."""
    precisions = ("bf16-mixed", "16-mixed")
    for precision in precisions:
        with tempfile.TemporaryDirectory() as name:
            _fit(device, Path(name), precision=precision)  # raises if the loss is not finite
    yield Finding("precision", "ok", ", ".join(f"{name} works" for name in precisions))


def _fit(
    device: torch.device, folder: Path, *, epochs: int = 1, precision: str = "32-true"
) -> FocusingModule:
    """Train a small network with Lightning, as a run does."""
    options: dict[str, Any] = {
        "max_epochs": epochs,
        "accelerator": {"cuda": "gpu"}.get(device.type, device.type),
        "devices": 1 if device.index is None else [device.index],
        "precision": precision,
        "deterministic": True,
    }
    (folder / "checkpoints").mkdir(exist_ok=True)
    deterministic = torch.are_deterministic_algorithms_enabled()
    data = synthetic(n_samples=200)
    torch.manual_seed(0)
    net = focused_mlp(data.inputs, data.outputs, hidden=[8], sigma=0.1)
    module = FocusingModule(net, OPTIM)
    try:
        fit(
            build_trainer(options, folder),
            module,
            {"train": data.train, "test": data.test},
            resume_from=folder / "checkpoints",
        )
    finally:
        torch.use_deterministic_algorithms(deterministic)
    return module
