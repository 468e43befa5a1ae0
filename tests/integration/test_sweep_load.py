"""A small version of benchmarks/sweep.py: a sweep of many jobs does not grow."""

from pathlib import Path

import pytest

from benchmarks.sweep import sweep

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not Path("/proc").exists(), reason="measures the process")
def test_many_jobs_leak_neither_memory_nor_files(tmp_path: Path) -> None:
    measured = sweep(tmp_path, jobs=12, workers=2)
    assert len(list(tmp_path.glob("outputs/*/*/*/result.json"))) == 12
    assert measured["parent_mb_late"] - measured["parent_mb_early"] < 5
    # A worker has four, and the second may start late; a leak of one file per job would be 12.
    assert measured["open_files_most"] <= measured["open_files_early"] + 8
    assert "12/12 jobs, 12 done" in (tmp_path / "log").read_text()
