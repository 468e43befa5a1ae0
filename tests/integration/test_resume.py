"""A run that is killed at random points and resumed equals one that was not."""

import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.integration.commands import (
    COUNTED_TRAIN,
    TRAIN,
    record,
    run_dirs,
    start,
    steps,
    wait_until_it_catches,
)
from tests.integration.forked import Forked, run_forked

pytestmark = pytest.mark.slow

OPTIONS = [
    "data.n_samples=1200",
    "trainer.max_epochs=4",
    "figures=false",
    "protocol=holdout",
    "optim.batch_size=8",
    "optim.accumulate=2",
    "model.hidden=[16]",
    "model.input_dropout=0.2",
    "model.dropout=[0.25]",
]


def rows(folder: Path) -> int:
    return sum(
        len(path.read_text().splitlines()) - 1 for path in folder.glob("outputs/*/*/*/metrics.csv")
    )


@pytest.mark.parametrize("hidden", [16, 1024])  # the larger layer computes bands of its weights
def test_killed_run_resumes_bit_for_bit(tmp_path: Path, hidden: int) -> None:
    options = [*OPTIONS, f"model.hidden=[{hidden}]"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir(), killed.mkdir()
    assert run_forked(COUNTED_TRAIN, *options, cwd=whole).returncode == 0
    per_epoch = steps(whole) // 4
    chance = random.Random(0)  # noqa: S311 - not for secrets
    expected = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -9}
    for epoch, (signum, code) in enumerate(expected.items()):
        target = epoch * per_epoch + chance.randint(1, per_epoch // 2)
        process = Forked(COUNTED_TRAIN, *options, cwd=killed)
        while steps(killed) < target and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signum)
        output = "".join(process.communicate(timeout=60))
        assert process.returncode == code, output
        assert "Traceback" not in output
        [folder] = run_dirs(killed)
        assert not (folder / "result.json").exists()
        if signum == signal.SIGKILL:
            checkpoint = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
            assert checkpoint["epoch"] >= rows(killed) - 2  # at most the current epoch is lost
            continue
        assert "The same command resumes" in output
        mid_epoch = torch.load(folder / "checkpoints" / "interrupted.ckpt", weights_only=True)
        assert mid_epoch["steps"]["total"]["completed"] == steps(killed)  # none was repeated
    before = steps(killed)
    assert rows(killed) < 4
    assert run_forked(COUNTED_TRAIN, *options, cwd=killed).returncode == 0
    assert 0 < before < steps(whole) <= steps(killed) <= steps(whole) + per_epoch
    [one], [two] = run_dirs(whole), run_dirs(killed)
    assert record(one)["series"] == record(two)["series"]
    assert record(one)["scores"] == record(two)["scores"]
    assert (one / "metrics.csv").read_text() == (two / "metrics.csv").read_text()
    np.testing.assert_equal(*(dict(np.load(run / "focus.npz")) for run in (one, two)))
    for name in ("last.ckpt", "best.ckpt"):
        states = [torch.load(run / "checkpoints" / name, weights_only=True) for run in (one, two)]
        assert states[0]["epoch"] == states[1]["epoch"]
        torch.testing.assert_close(states[0]["state_dict"], states[1]["state_dict"], rtol=0, atol=0)
    assert not (two / "checkpoints" / "interrupted.ckpt").exists()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_during_startup(tmp_path: Path, signum: int, code: int) -> None:
    process = start(TRAIN, *OPTIONS, cwd=tmp_path)
    wait_until_it_catches(process, signal.SIGTERM)  # train.py begins; torch is not imported yet
    process.send_signal(signum)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code, output
    assert "Traceback" not in output


def test_resume_never_starts_over(tmp_path: Path) -> None:
    process = Forked(TRAIN, *OPTIONS, cwd=tmp_path)
    while rows(tmp_path) < 1 and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = run_forked(TRAIN, *OPTIONS, "resume=never", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [folder] = run_dirs(tmp_path)
    assert len(record(folder)["series"]["test/acc"]) == rows(tmp_path) == 4
