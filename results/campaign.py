"""Runs the queue of long experiments behind REPRODUCTION.md: make campaign.

Each entry of results/campaign.yaml is a command of the framework. Runs that are published in
results/ count as finished, so a new machine begins with the first run that is not. Without GPUs
each core takes an entry of its own: with all cores on one entry they would wait for its last run,
which may take an hour. When an entry ends or is stopped, the records of its finished runs are
archived and committed; it is done when all its runs are published. Ctrl-C stops the queue, and the
same command continues it. While the file outputs/.pause exists, nothing runs: create it before a
benchmark.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any

import yaml

from focusing.compose import check_config, compose_config
from focusing.experiments.listing import expand_command
from focusing.experiments.table1_trials import apply_trial
from focusing.results.collect import collect
from focusing.results.identity import config_hash

ROOT = Path(__file__).parent.parent
QUEUE = "results/campaign.yaml"
OPTIONS = (
    "hydra/launcher=local",
    "hydra.launcher.threads=1",
    "sweep.archive=results",
    "figures=false",
)
"""One run per core and one thread per run: then nothing waits, and CPU times can be compared."""


def main(overrides: list[str], root: Path = ROOT) -> int:
    """Run all unfinished entries; overrides such as hydra.launcher.gpus=8 go to every command."""
    queue = yaml.safe_load((root / QUEUE).read_text())
    unfinished = [place for place, entry in enumerate(queue) if entry["state"] != "done"]
    at_once = 1  # such overrides share GPUs or cores among the runs of an entry
    if not any(override.startswith("hydra.launcher.") for override in overrides):
        at_once = os.cpu_count() or 1
        overrides = [*overrides, "hydra.launcher.workers=1"]
    stop = Event()
    with ThreadPoolExecutor(at_once) as pool:
        run = partial(run_entry, queue, root=root, overrides=overrides, stop=stop, lock=Lock())
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
    overrides: list[str],
    stop: Event,
    lock: Lock,
) -> int:
    """Run an entry, publish its records and write its state; return the exit code."""
    entry = queue[place]
    if stop.is_set():
        return 0
    print(f"== {entry['purpose']}\n== train.py {entry['command']}", flush=True)
    command = ["train.py", "-m", *entry["command"].split(), *OPTIONS, *overrides]
    code = subprocess.run([sys.executable, *command], cwd=root).returncode  # noqa: S603
    stopped = code in (130, 143) or code < 0
    if stopped:
        stop.set()
    with lock:
        if any((root / "outputs").glob("*/*/*/result.json")):  # or all were published before
            archive = ["-m", "focusing.cli", "archive", "outputs"]
            subprocess.run([sys.executable, *archive], cwd=root, check=True)  # noqa: S603
        if not stopped:
            set_state(root / QUEUE, place, "failed" if code else finished_state(entry, root))
        git(root, "add", "results")
        git(root, "commit", "--quiet", "--message", f"Campaign: {entry['purpose']}")
    return abs(code)


def finished_state(entry: dict[str, str], root: Path) -> str:
    """State of an entry whose command succeeded: overrides may have left out some of its runs."""
    published = published_runs(root / "results")
    return "waiting" if unpublished(entry["command"], published) else "done"


def published_runs(results: Path) -> set[tuple[Any, ...]]:
    """Name, hash and seed of each run with a record below a folder."""
    return {(run.experiment, run.config_hash, run.seed) for run in collect([results]).runs}


def unpublished(
    command: str, published: set[tuple[Any, ...]], jobs: slice = slice(None)
) -> list[str]:
    """Runs of a command that are not published; ``jobs``: look only at these."""
    runs = expand_command(tuple(command.split()))[jobs]
    return [" ".join(run) for run in runs if _identity(*run) not in published]


def _identity(*overrides: str) -> tuple[Any, ...]:
    """Name, hash and seed by which the record of a run is known."""
    composed = compose_config(*overrides)
    apply_trial(composed)
    config = check_config(composed)
    if "on_missing" in config["data"]:
        config["data"]["on_missing"] = "error"  # as it is recorded when the files exist
    return config["name"], config_hash(config), config["seed"]


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
    # A flag such as --help must not reach the commands: they would end at once, with success.
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("overrides", nargs="*", help="for every command: hydra.launcher.gpus=8")
    sys.exit(main(parser.parse_args().overrides))
