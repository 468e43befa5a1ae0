"""From training to a report, through the commands."""

import csv
import re
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.integration.commands import FOCUSING, TRAIN, run_dirs, run_here
from tests.integration.forked import Forked, run_forked
from tests.processes import wait_until
from tests.unit.reports.records import add_run

pytestmark = pytest.mark.slow

SWEEP = "-m model=dense,focus_s seed=0,17,34"
"""The runs of a sweep are compared."""


def test_a_sweep_is_compared(tmp_path: Path) -> None:
    done = run_forked(TRAIN, *SWEEP.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = done.stdout.partition("6/6 jobs, 6 done\n")[2]
    assert re.search(r"Dense +3 +[\d.]+ ± [\d.]+ *\n", table)
    assert re.search(r"Focus-s +3 +[\d.]+ ± [\d.]+ +− Dense: [+−][\d.]+ \[.*\]", table)
    assert "p=" in table
    assert table.endswith("Next: focusing report outputs\n")

    done = run_here("report", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "6 runs: here/" in done.stdout
    text = (tmp_path / "here/tables/experiment_learning_to_focus_full_text.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [(row["model"], row["protocol"], row["n"], row["against"]) for row in rows] == [
        ("dense", "best_test", "3", ""),
        ("dense", "last", "3", ""),
        ("focus_s", "best_test", "3", "dense"),
        ("focus_s", "last", "3", "dense"),
    ]
    assert all(0 < float(row["p_holm"]) <= 1 for row in rows if row["against"])
    assert "there is no difference to judge" not in (tmp_path / "here/index.html").read_text()


def test_serve_updates_while_a_sweep_runs(tmp_path: Path) -> None:
    for seed in range(2):
        add_run(tmp_path / "outputs", "x", "mnist", "focus_s", seed, [0.5, 0.6])
    process = Forked(FOCUSING, "report", "--serve", "--port", "0", cwd=tmp_path)

    try:
        wait_until(lambda: "2 runs" in process.output, 120, process)
        address = process.output.split()[0]
        (run_dirs(tmp_path)[0] / "result.json").unlink()
        wait_until(lambda: "1 run" in process.output, 120, process)
        with urllib.request.urlopen(f"{address}/version", timeout=10) as answer:  # noqa: S310
            assert answer.read() == b"2"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
