"""Runs the queue of long experiments behind REPRODUCTION.md: make campaign.

Each entry of results/campaign.yaml is a command of the framework. Runs that are published in
results/ count as finished, so a new machine begins with the first run that is not. Without GPUs
each core takes an entry of its own: with all cores on one entry they would wait for its last run,
which may take an hour. When an entry ends or is stopped, the records of its finished runs are
archived and committed. Ctrl-C stops the queue, and the same command continues it. While the file
outputs/.pause exists, nothing runs: create it before a benchmark.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event, Lock

import yaml

ROOT = Path(__file__).parent.parent
QUEUE = "results/campaign.yaml"
OPTIONS = (
    "hydra/launcher=local",
    "hydra.launcher.threads=1",
    "sweep.archive=results",
    "figures=false",
)
"""One run per core and one thread per run: then nothing waits, and CPU times can be compared."""


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Run all unfinished entries; arguments such as hydra.launcher.gpus=8 go to every command."""
    queue = yaml.safe_load((root / QUEUE).read_text())
    unfinished = [place for place, entry in enumerate(queue) if entry["state"] != "done"]
    at_once = 1  # such arguments share GPUs or cores among the runs of an entry
    if not any(argument.startswith("hydra.launcher.") for argument in arguments):
        at_once = os.cpu_count() or 1
        arguments = [*arguments, "hydra.launcher.workers=1"]
    stop = Event()
    with ThreadPoolExecutor(at_once) as pool:
        run = partial(run_entry, queue, root=root, arguments=arguments, stop=stop, lock=Lock())
        codes = pool.map(run, unfinished)
        try:
            return max(codes, default=0)
        except KeyboardInterrupt:  # the commands have received Ctrl-C, too; each is awaited
            stop.set()
            return 130


def run_entry(
    queue: list[dict[str, str]],
    place: int,
    *,
    root: Path,
    arguments: list[str],
    stop: Event,
    lock: Lock,
) -> int:
    """Run an entry, publish its records and write its state; return the exit code."""
    entry = queue[place]
    if stop.is_set():
        return 0
    print(f"== {entry['purpose']}\n== train.py {entry['command']}", flush=True)
    command = ["train.py", "-m", *entry["command"].split(), *OPTIONS, *arguments]
    code = subprocess.run([sys.executable, *command], cwd=root).returncode  # noqa: S603
    stopped = code in (130, 143) or code < 0
    if stopped:
        stop.set()
    with lock:
        if any((root / "outputs").glob("*/*/*/result.json")):  # or all were published before
            archive = ["-m", "focusing.cli", "archive", "outputs"]
            subprocess.run([sys.executable, *archive], cwd=root, check=True)  # noqa: S603
        if not stopped:
            set_state(root / QUEUE, place, "failed" if code else "done")
        git(root, "add", "results")
        git(root, "commit", "--quiet", "--message", f"Campaign: {entry['purpose']}")
    return abs(code)


def set_state(queue: Path, place: int, state: str) -> None:
    """Write the state of an entry, and keep the comments of the file."""
    lines = queue.read_text().splitlines(keepends=True)
    states = [number for number, line in enumerate(lines) if line.lstrip().startswith("state:")]
    lines[states[place]] = f"  state: {state}\n"
    queue.write_text("".join(lines))


def git(root: Path, *arguments: str) -> None:
    """Run git, if this is a repository."""
    if (root / ".git").exists():
        subprocess.run(["git", *arguments], cwd=root)  # noqa: S603, S607


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
