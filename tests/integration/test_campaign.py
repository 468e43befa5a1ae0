"""The queue of long runs: its commands compose, and it continues where it stopped."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from focusing.experiments.listing import expand_command
from focusing.results.store import read_archive
from tests.integration.forked import Forked, run_forked
from tests.processes import children, state, wait_until

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("campaign", ROOT / "results" / "campaign.py")
assert SPEC is not None
assert SPEC.loader is not None
campaign = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(campaign)

RUN = subprocess.run
ENTRIES = yaml.safe_load((ROOT / campaign.QUEUE).read_text())
SMALL = """\
# A comment.
- purpose: Done before
  command: experiment=none_such
  state: done
- purpose: One that cannot be
  command: model=none_such
  state: waiting
- purpose: A small run
  command: data.n_samples=50 trainer.max_epochs=1 seed=0,1
  state: waiting # a comment
"""
LONG = """\
- purpose: A small run
  command: data.n_samples=50 trainer.max_epochs=1 seed=0
  state: waiting
- purpose: A run that takes hours
  command: data.n_samples=50 trainer.max_epochs=1000000 seed=1
  state: waiting
"""


def test_entries_are_well_formed() -> None:
    assert all(entry.keys() == {"purpose", "command", "state"} for entry in ENTRIES)
    assert {entry["state"] for entry in ENTRIES} <= {"waiting", "done", "failed"}
    assert max(Counter(entry["command"] for entry in ENTRIES).values()) == 1


@pytest.fixture(scope="module")
def published() -> set[tuple[Any, ...]]:
    runs: set[tuple[Any, ...]] = campaign.published_runs(ROOT / "results")
    return runs


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["command"])
def test_commands_compose_and_finished_entries_are_published(
    entry: dict[str, str], published: set[tuple[Any, ...]]
) -> None:
    count = len(expand_command(tuple(entry["command"].split())))
    assert count > 1
    if entry["state"] == "done":
        first_and_last = slice(None, None, count - 1)  # all of them would take minutes
        assert campaign.unpublished(entry["command"], published, first_and_last) == []


def run_forked_instead(command: list[str], cwd: Path, check: bool = False) -> Any:
    """Stand in for ``subprocess.run``, without the seconds of importing torch."""
    if command[0] == "git":
        return RUN(command, cwd=cwd, check=True)
    done = run_forked(command[:1], *command[1:], cwd=cwd)
    assert done.returncode == 0 or not check, done.stderr
    return done


def write_queue(folder: Path, text: str) -> Path:
    """Make a small project of the folder, with this queue."""
    (folder / "results").mkdir()
    (folder / "conf").symlink_to(ROOT / "conf")
    shutil.copy(ROOT / "train.py", folder)
    queue = folder / campaign.QUEUE
    queue.write_text(text)
    return queue


def test_queue_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign.subprocess, "run", run_forked_instead)
    queue = write_queue(tmp_path, SMALL)
    for words in ("init -q", "config user.name Test", "config user.email test@example.org"):
        RUN(["git", *words.split()], cwd=tmp_path, check=True)
    assert campaign.main(["trainer.accelerator=cpu"], tmp_path) == 1
    text = queue.read_text()
    assert [entry["state"] for entry in yaml.safe_load(text)] == ["done", "failed", "done"]
    assert text.startswith("# A comment.\n")
    assert len(list(tmp_path.glob("results/*/records.jsonl.xz"))) == 1
    log = RUN(["git", "log", "--format=%s", "--name-only"], cwd=tmp_path, capture_output=True)
    assert b"Campaign: A small run" in log.stdout
    assert b"/records.jsonl.xz" in log.stdout
    assert (
        RUN(["git", "status", "--short", "results"], cwd=tmp_path, capture_output=True).stdout
        == b""
    )

    shutil.rmtree(tmp_path / "outputs")
    queue.write_text(SMALL.replace("waiting\n", "done\n"))
    assert campaign.main(["trainer.accelerator=cpu"], tmp_path) == 0
    assert not list(tmp_path.glob("outputs/*/*/seed=*"))  # published runs are skipped


def test_entry_is_done_only_when_all_its_runs_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign.subprocess, "run", run_forked_instead)
    command = "data.n_samples=50 trainer.max_epochs=1 seed=0,1"
    queue = write_queue(
        tmp_path, f"- purpose: Two small runs\n  command: {command}\n  state: waiting\n"
    )

    def states() -> tuple[str, int]:
        missing = campaign.unpublished(command, campaign.published_runs(tmp_path / "results"))
        return yaml.safe_load(queue.read_text())[0]["state"], len(missing)

    assert campaign.main(["trainer.accelerator=cpu", "seed=1"], tmp_path) == 0
    assert states() == ("waiting", 1)
    assert campaign.main(["trainer.accelerator=cpu"], tmp_path) == 0
    assert states() == ("done", 0)


@pytest.mark.parametrize(("flag", "code"), [("--help", 0), ("--cfg", 2)])
def test_flags_are_not_for_the_commands(tmp_path: Path, flag: str, code: int) -> None:
    queue = write_queue(tmp_path, LONG)
    shutil.copy(ROOT / "results" / "campaign.py", tmp_path / "results")
    done = run_forked([sys.executable], "results/campaign.py", flag, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert queue.read_text() == LONG


def test_pause_suspends_and_ctrl_c_stops_all_entries_and_publishes_finished_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = write_queue(tmp_path, LONG)
    commands: list[Forked] = []
    seen: list[str] = []

    def run_noted(command: list[str], cwd: Path, check: bool = False) -> Any:
        process = Forked(command[:1], *command[1:], cwd=cwd)
        commands.append(process)
        process.communicate()
        return process

    def press() -> None:
        begun = "outputs/*/*/seed=1/metrics.csv"
        try:
            wait_until(lambda: "done" in queue.read_text() and any(tmp_path.glob(begun)), 200)
            if Path("/proc").exists():  # it tells the states of processes
                [running] = [process for process in commands if process.poll() is None]
                pause = tmp_path / "outputs" / ".pause"
                pause.touch()
                wait_until(lambda: any(state(worker) == "T" for worker in children(running.pid)))
                pause.unlink()
                wait_until(lambda: all(state(worker) != "T" for worker in children(running.pid)))
            seen.append("all")
        finally:  # or the commands would run for hours
            pids = [process.pid for process in commands if process.poll() is None]
            for pid in (*pids, os.getpid()):
                os.kill(pid, signal.SIGINT)

    monkeypatch.setattr(campaign.subprocess, "run", run_noted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        Thread(target=press).start()
        assert campaign.main(["trainer.accelerator=cpu"], tmp_path) == 130
    finally:
        signal.signal(signal.SIGINT, handler)
    assert seen, "the long run did not begin, pause or go on"
    states = [entry["state"] for entry in yaml.safe_load(queue.read_text())]
    assert states == ["done", "waiting"]
    [record] = read_archive(next(tmp_path.glob("results/*/records.jsonl.xz")))
    assert record[0].endswith("seed=0")
