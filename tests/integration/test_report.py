"""From training to a report, with the real commands."""

import csv
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from tests.integration.commands import FOCUSING, TRAIN, run_dirs, run_here
from tests.integration.forked import Forked, run_forked

SMALL = ["data.n_samples=200", "trainer.max_epochs=3", "figures=false", "callbacks=none"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    sweep = ["-m", "model=dense,focus_s", "seed=0,1", "protocol=holdout", "name=mine"]
    done = run_forked(TRAIN, *sweep, *SMALL, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_records_become_tables(trained: Path) -> None:
    done = run_here("report", "--out", "here", cwd=trained)
    assert done.returncode == 0, done.stderr
    assert "Experiment mine (size=full, variant=text)" in done.stdout
    assert "4 runs: here/" in done.stdout
    text = (trained / "here/tables/experiment_mine_full_text.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert {(row["model"], row["protocol"], row["n"]) for row in rows} == {
        (model, protocol, "2")
        for model in ("dense", "focus_s")
        for protocol in ("best_test", "holdout", "last")
    }
    optimism = (trained / "here/tables/optimism_full_text.md").read_text()
    assert "all of these" in optimism


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
        assert said("4 runs")
        address = process.output.split()[0]
        (run_dirs(trained)[0] / "result.json").unlink()
        assert said("3 runs")
        assert _get(f"{address}/version") == "2"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


def _get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - our own server
        return str(answer.read().decode())
