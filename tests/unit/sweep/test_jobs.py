"""Output of a sweep: its status while it runs, failures and summary at its end."""

import io
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from rich.console import Console

from focusing import instantiate
from focusing.compose import is_valid
from focusing.errors import UserError
from focusing.results.store import read_record, write_archive
from focusing.sweep import status as status_module
from focusing.sweep.jobs import Job, Outcome, number_jobs, raise_failures
from focusing.sweep.status import SweepStatus, print_summary
from tests.unit.reports.records import add_run

OVERRIDES = [[f"seed={seed}", "a=1"] for seed in range(5)]
JOBS = number_jobs(OVERRIDES)


def make_status(
    *, terminal: bool, interval: float = 0.0, best: bool = False
) -> tuple[SweepStatus, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=200, soft_wrap=True)
    return SweepStatus(OVERRIDES, interval=interval, console=console, best=best), stream


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a sweep, in place of the real one: its only item."""
    now = [0.0]
    monkeypatch.setattr(status_module, "running_seconds", lambda: now[0])
    return now


@pytest.mark.parametrize("best", [False, True])  # a search shows the best, a grid does not
def test_counts_best_and_time_left(best: bool, clock: list[float]) -> None:
    status, stream = make_status(terminal=False, best=best)
    with status:
        status.add(JOBS[0], Outcome("done", earlier=True, score=0.5, metric="accuracy"))
        status.add(JOBS[4], Outcome("failed", earlier=True, error="It broke."))
        assert status.seconds_left() is None  # no job has run
        status.add(JOBS[1], Outcome("done", score=0.9, metric="accuracy"))
        clock[0] = 4.0
        status.add(JOBS[2], Outcome("failed", error="It [broke]."))
        status.running = 1
        status.refresh()
    failed, line = stream.getvalue().splitlines()[:2]
    assert failed == "failed: seed=2: It [broke]."
    assert line.startswith("4/5 jobs, 1 done, 2 failed, 1 skipped, 1 running, 0:02 left")
    assert line.endswith("best 0.9 (seed=1)") == best


def test_time_left_falls_while_a_job_runs(clock: list[float]) -> None:
    status, _ = make_status(terminal=False)
    clock[0] = 600.0
    status.add(JOBS[0], Outcome("done"))
    assert status.seconds_left() == 4 * 600
    clock[0] = 900.0  # half-way through the second job
    assert status.seconds_left() == 4 * 600 - 300
    clock[0] = 4000.0  # it takes longer than all jobs should
    assert status.seconds_left() is None


def test_log_interval_and_lowest_error_is_best() -> None:
    status, stream = make_status(terminal=False, interval=1000.0, best=True)
    with status:
        for job, score in zip(JOBS, (3.0, 2.0, 4.0), strict=False):
            status.add(job, Outcome("done", score=score, metric="mae"))
            status.refresh()
    first, last = stream.getvalue().splitlines()  # at the start and the end
    assert first.endswith("best 3 (seed=0)")
    assert last.endswith("best 2 (seed=1)")


def test_repeated_errors_are_printed_once() -> None:
    status, stream = make_status(terminal=False, interval=1000.0)
    for job, error in zip(JOBS, ("The job died.", "The job died.", "Diverged."), strict=False):
        status.add(job, Outcome("failed", error=error))
    assert [line.split(": ")[1] for line in stream.getvalue().splitlines()] == ["seed=0", "seed=2"]


def test_terminal_shows_a_bar_below_the_lines() -> None:
    status, stream = make_status(terminal=True)

    def interrupted() -> None:
        with status:
            status.print("a warning [of] a worker")
            status.refresh()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for text in ("a warning [of] a worker", "━", "0/5", "The same command goes on"):
        assert text in stream.getvalue()


def test_raise_failures_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome("done")
    raise_failures([(JOBS[0], done), (JOBS[1], done)])
    assert capsys.readouterr().err == ""
    failed = Outcome("failed", run_dir="/somewhere", error="It [broke], " + "at length " * 20)
    with pytest.raises(UserError, match=r"1 of 2 jobs failed\.$"):  # it left no record
        raise_failures([(JOBS[0], done), (JOBS[1], failed)])
    [row] = [line for line in capsys.readouterr().err.splitlines() if "seed=1" in line]
    assert "It [broke]" in row
    assert "/somewhere" in row
    assert "a=1" not in row  # the same for all jobs


def test_failed_runs_of_a_stack_have_a_row_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "result.json").touch()
    run = Job(3, ("sweep.trial=3", "model=dense"))
    failed = Outcome("failed", earlier=True, run_dir=str(tmp_path), error="It diverged.")
    stack = Outcome("failed", error="1 of 8 runs failed", runs=((run, failed),))
    with pytest.raises(UserError, match=r"1 of 8 runs failed; sweep.retry_failed=true runs them"):
        raise_failures([(JOBS[0], stack)])
    [row] = [line for line in capsys.readouterr().err.splitlines() if "sweep.trial=3" in line]
    assert "It diverged. (in an earlier sweep)" in row


def test_summary_suggests_the_missing_dense_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        add_run(tmp_path, "clt", "clt", "focus_s", seed, [0.5 + seed / 100]) for seed in range(3)
    ]
    record = read_record(runs[2]) or {}
    write_archive(tmp_path / "archive", [("clt/seed=2", record)])  # an archived run
    folders = [*runs[:2], tmp_path / "archive" / "clt" / "seed=2"]
    results = [
        (job, Outcome("done", run_dir=str(folder)))
        for job, folder in zip(JOBS[:3], folders, strict=True)
    ]
    results += [(JOBS[3], Outcome("failed", error="no")), (JOBS[4], Outcome("done"))]  # no folder
    config = OmegaConf.create(
        {
            "sweep": {"archive": str(tmp_path / "archive")},
            "paths": {"output_dir": "my runs"},
            "hydra": {
                "runtime": {"config_sources": [{"provider": "command-line", "path": "my conf"}]},
                "overrides": {"hydra": ["hydra/launcher=local", "hydra.mode=MULTIRUN"]},
            },
        }
    )
    monkeypatch.setattr(instantiate, "_trusted", {"my.Net"})
    windows = ["dynamic=static", "model.dynamic.zoom=true"]  # the baseline has none
    arguments = ["model=focus_s", *windows, "data=clt", "model.hidden=[8,8]"]
    print_summary(results, config, arguments, is_valid)
    shown = capsys.readouterr().out
    assert re.search(r"CLT +Focus-s +3 +51.00 ± 1.00", shown)
    assert "No dense network of the same settings is among these runs" in shown
    assert shown.splitlines()[-2:] == [
        "Next: python train.py -m --config-dir 'my conf' --trust-target my.Net "
        "hydra/launcher=local model=dense data=clt 'model.hidden=[8,8]'",
        "Next: focusing report 'my runs'",
    ]
