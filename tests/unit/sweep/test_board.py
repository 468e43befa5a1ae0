import io

import pytest
from rich.console import Console

from focusing.sweep.status import SweepStatus
from focusing.sweep.jobs import Outcome, numbered

OVERRIDES = [[f"seed={seed}", "a=1"] for seed in range(5)]
JOBS = numbered(OVERRIDES)


def board(*, terminal: bool, interval: float = 0.0) -> tuple[Board, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=200, soft_wrap=True)
    return Board(OVERRIDES, interval=interval, console=console), stream


def test_counts_best_and_time_left() -> None:
    shown, stream = board(terminal=False)
    with shown:
        shown.ended(JOBS[0], Outcome("done", earlier=True, score=0.5, metric="accuracy"))
        shown.ended(JOBS[4], Outcome("failed", earlier=True, error="It broke."))
        assert shown.seconds_left() is None  # nothing has run yet
        shown.ended(JOBS[1], Outcome("done", score=0.9, metric="accuracy"))
        shown.ended(JOBS[2], Outcome("failed", error="It [broke]."))
        shown.running = 1
        shown.tick()
        assert shown.seconds_left() is not None
    line = stream.getvalue().splitlines()[1]
    assert line.startswith("4/5 jobs, 1 done, 2 failed, 1 skipped, 1 running, 0:0")
    assert line.endswith("best 0.9 (seed=1)")
    assert stream.getvalue().splitlines()[0] == "failed: seed=2: It [broke]."


def test_of_an_error_less_is_better() -> None:
    shown, _ = board(terminal=False)
    for job, score in zip(JOBS, (3.0, 2.0, 4.0), strict=False):
        shown.ended(job, Outcome("done", score=score, metric="mae"))
    assert shown.best is not None
    assert shown.best[0] == JOBS[1]


def test_a_log_is_not_flooded() -> None:
    shown, stream = board(terminal=False, interval=1000.0)
    with shown:
        for _ in range(50):
            shown.tick()
    assert len(stream.getvalue().splitlines()) == 2  # at the start and at the end


def test_a_terminal_has_a_bar_and_lines_above_it() -> None:
    shown, stream = board(terminal=True)

    def interrupted() -> None:
        with shown:
            shown.say("a warning [of] a worker")
            shown.tick()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    text = stream.getvalue()
    assert "a warning [of] a worker" in text
    assert "━" in text
    assert "0/5" in text
    assert "The same command goes on" in text
