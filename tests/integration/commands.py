"""Runs commands, in this process or in new ones, and reads what they leave."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

ROOT = Path(__file__).parents[2]
TRAIN = [sys.executable, str(ROOT / "train.py")]
FOCUSING = [sys.executable, "-m", "focusing.cli"]
COUNTED_TRAIN = [sys.executable, "-m", "tests.integration.counted_train"]
SMALL = ["data.n_samples=200", "trainer.max_epochs=3", "figures=false"]
needs_cluster = pytest.mark.skipif(
    "FOCUSING_TEST_CLUSTER" not in os.environ, reason="takes a minute: make test-cluster"
)


def environment(**more: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HYDRA", "WANDB"))}
    return {**inherited, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **more}


def run(
    command: list[str], *arguments: str, cwd: Path, **env: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*command, *arguments],
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=300,
    )


def run_here(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run ``focusing`` in this process, because a new one takes seconds to start."""
    from focusing.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    before, handler = Path.cwd(), signal.getsignal(signal.SIGTERM)
    command = ["focusing", *arguments]
    os.chdir(cwd)
    try:
        with (
            patch.dict(os.environ, {"HYDRA_FULL_ERROR": "0"}),
            patch.object(sys, "argv", command),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            main()
    except SystemExit as leave:
        code = int(leave.code or 0)
    finally:
        os.chdir(before)
        signal.signal(signal.SIGTERM, handler)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def start(command: list[str], *arguments: str, cwd: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A background job of a shell ignores Ctrl-C, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_until_it_catches(process: "subprocess.Popen[str]", signum: int) -> None:
    """Wait until the process handles a signal; without /proc, simply wait."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        time.sleep(3)
        return
    while process.poll() is None:
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        if int(fields["SigCgt"], 16) >> (signum - 1) & 1:
            return
        time.sleep(0.01)


def tracked(*paths: str) -> list[Path]:
    """List the files that git tracks."""
    command = ["git", "ls-files", *paths]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


def steps(folder: Path) -> int:
    """Return the number of optimizer steps of COUNTED_TRAIN in a folder."""
    path = folder / "steps"
    return path.stat().st_size if path.exists() else 0


def run_dirs(folder: Path) -> list[Path]:
    return sorted(folder.glob("outputs/*/*/seed=*"))


def record(run_dir: Path) -> dict[str, Any]:
    return json.loads((run_dir / "result.json").read_text())  # type: ignore[no-any-return]
