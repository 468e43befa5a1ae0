"""From training to a report, with the real commands."""

import csv
import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from tests.integration.commands import FOCUSING, ROOT, TRAIN, run_dirs, run_here
from tests.integration.forked import Forked, run_forked

pytestmark = pytest.mark.slow

SWEEP = "-m model=dense,focus_s seed=0,17,34"
"""Of README.md, which promises that its runs are compared."""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("report")
    done = run_forked(TRAIN, *SWEEP.split(), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture
def trained(swept: tuple[Path, str]) -> Path:
    return swept[0]


def test_a_sweep_of_the_readme_ends_with_its_settings(swept: tuple[Path, str]) -> None:
    assert f"python train.py {SWEEP}" in (ROOT / "README.md").read_text()
    table = swept[1].partition("6/6 jobs, 6 done\n")[2]
    assert re.search(r"Dense +3 +[\d.]+ ± [\d.]+ *\n", table)
    assert re.search(r"Focus-s +3 +[\d.]+ ± [\d.]+ +− Dense: [+−][\d.]+ \[.*\]", table)
    assert "p=" in table
    assert table.endswith("Next: focusing report\n")


def test_a_report_compares_them(trained: Path) -> None:
    done = run_here("report", "--out", "here", cwd=trained)
    assert done.returncode == 0, done.stderr
    assert "6 runs: here/" in done.stdout
    text = (trained / "here/tables/experiment_learning_to_focus_full_text.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [(row["model"], row["protocol"], row["n"], row["against"]) for row in rows] == [
        ("dense", "best_test", "3", ""),
        ("dense", "last", "3", ""),
        ("focus_s", "best_test", "3", "dense"),
        ("focus_s", "last", "3", "dense"),
    ]
    assert all(0 < float(row["p_holm"]) <= 1 for row in rows if row["against"])
    assert "there is no difference to judge" not in (trained / "here/index.html").read_text()


def test_an_empty_folder_is_one_sentence(tmp_path: Path) -> None:
    done = run_here("report", ".", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "Error: No finished runs below .: python train.py makes one.\n"
    assert done.stdout == ""


def test_a_report_while_a_sweep_runs(trained: Path, tmp_path: Path) -> None:
    process = Forked(FOCUSING, "report", "--serve", str(trained), "--port", "0", cwd=tmp_path)

    def said(words: str) -> bool:
        deadline = time.monotonic() + 120
        while words not in process.output and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        return words in process.output

    try:
        assert said("6 runs")
        address = process.output.split()[0]
        (run_dirs(trained)[0] / "result.json").unlink()
        assert said("5 runs")
        assert _get(f"{address}/version") == "2"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


def _get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - our own server
        return str(answer.read().decode())
