"""A clock that stands still while a sweep is paused."""

import pytest

from focusing import clock


def test_pauses_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_suspended", None)
    monkeypatch.setattr(clock.time, "perf_counter", lambda: 100.0)
    assert clock.running_seconds() == 100
    outer = clock.share_suspension()
    assert clock.running_seconds() == 100
    inner = clock.share_suspension()  # of a pool within a worker, which pauses with the outer one
    outer.value += 30
    assert inner.value == 30
    assert clock.running_seconds() == 70
