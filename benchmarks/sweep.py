"""What a sweep of many tiny jobs costs: time per job beside its training, memory and open files.

python benchmarks/sweep.py [--jobs 2000] [--workers N] [--json FILE]

The real command runs twice with ``hydra/launcher=local``: first all jobs; then, as nothing is left
to do, a look at all of them. Meanwhile the process of the sweep is watched.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TRAIN = Path(__file__).parents[1] / "train.py"
TINY = ["data.n_samples=60", "trainer.max_epochs=1", "model.hidden=[2]", "figures=false"]


def sweep(folder: Path, jobs: int, workers: int) -> dict[str, Any]:
    """Run the command and watch it."""
    swept = ["-m", f"seed=range({jobs})", "name=tiny", "hydra/launcher=local"]
    more = [f"hydra.launcher.workers={workers}", *TINY]
    began = time.monotonic()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, str(TRAIN), *swept, *more],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    samples, started = [], None
    while process.poll() is None:
        if workers_of(process.pid):
            started = time.monotonic() if started is None else started
            samples += sample(process.pid)
        time.sleep(0.25)
    seconds = time.monotonic() - (began if started is None else started)
    if process.returncode:
        raise SystemExit((folder / "log").read_text())
    memory, files = zip(*samples, strict=True)
    tenth = max(1, len(memory) // 10)
    return {
        "seconds": seconds,
        "seconds_to_start": (started or began) - began,
        "slot_seconds_per_job": seconds * workers / jobs,
        "parent_mb_early": memory[tenth],
        "parent_mb_late": memory[-tenth],
        "open_files_early": files[tenth],
        "open_files_most": max(files),
    }


def workers_of(pid: int) -> str:
    """The ids of its processes."""
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return ""


def sample(pid: int) -> list[tuple[float, int]]:
    """Resident memory in MB, and open files, of a process; nothing of one that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except (OSError, IndexError):
        return []
    return [(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, files)] if pages else []


def measure(jobs: int, workers: int) -> dict[str, Any]:
    """All jobs, then none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = sweep(folder, jobs, workers)
        records = [json.loads(p.read_text()) for p in folder.glob("outputs/*/*/*/result.json")]
        assert len(records) == jobs  # noqa: S101
        training = sum(record["wall_seconds"] for record in records) / jobs
        first["training_seconds_per_job"] = training
        first["overhead_seconds_per_job"] = first["slot_seconds_per_job"] - training
        return {
            "jobs": jobs,
            "workers": workers,
            "all": first,
            "again": sweep(folder, jobs, workers),
        }


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    measured = measure(arguments.jobs, arguments.workers)
    for what in ("all", "again"):
        print(f"{what} ({arguments.jobs} jobs, {arguments.workers} workers)")
        for name, value in measured[what].items():
            print(f"  {name.replace('_', ' '):28} {value:10.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
