"""A run that is stopped and continued is the run that was not, bit for bit."""

import operator
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from focusing.callbacks import ClipFoci, FocusTrajectory, StuckNeurons, Throughput
from focusing.errors import UserError
from focusing.training import resume, trainer
from focusing.training.checkpoint import PlainCheckpointIO, load_checkpoint
from focusing.training.loggers import build_loggers
from focusing.training.module import FocusingModule
from focusing.training.resume import Interrupted, interruptible, raise_if_interrupted
from tests.unit.training.fitting import CountSteps, Signal, net, optim, same_weights, trained

EPOCHS = 4


@dataclass
class Kind:
    """A kind of run that has everything with a state: dropout, batch norm, momentum, callbacks."""

    accumulate: int
    bundle: int

    def run(self, folder: Path, *more: pl.Callback) -> FocusingModule:
        folder.mkdir(exist_ok=True)
        decay = {"decay_epochs": [2], "decay": 0.5, "anneal_from": 3, "anneal_epochs": 4}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trainer, "MAX_BUNDLE", self.bundle)
            return trained(
                folder,
                network=net(input_dropout=0.2, dropout=[0.25]),
                settings=optim(momentum=0.9, batch_size=10, accumulate=self.accumulate, **decay),
                callbacks=[ClipFoci(), FocusTrajectory(), StuckNeurons(), Throughput(), *more],
                loggers=build_loggers({}, folder, config={}, experiment="x"),
                epochs=EPOCHS,
                resume_from=folder / "checkpoints",
                best_of="val/acc",
                holdout=True,
            )


@dataclass
class Whole:
    """A run that nobody stopped."""

    kind: Kind
    folder: Path
    module: FocusingModule

    def assert_same(self, folder: Path, module: FocusingModule, steps: int) -> None:
        """All that another run left is the same, but for times."""
        assert steps == module.global_step == self.module.global_step
        assert not (folder / "checkpoints" / "interrupted.ckpt").exists()
        for name in ("last.ckpt", "best.ckpt"):
            one, two = (dict(leaves(each / "checkpoints" / name)) for each in (folder, self.folder))
            assert one.keys() == two.keys()
            for path, value in one.items():
                if not path.endswith(("seconds", "peak_memory_bytes")):
                    same = torch.equal if isinstance(value, torch.Tensor) else operator.eq
                    assert same(value, two[path]), path
        assert module.series == self.module.series
        assert (folder / "metrics.csv").read_text() == (self.folder / "metrics.csv").read_text()
        foci = (dict(np.load(each / "focus.npz")) for each in (folder, self.folder))
        np.testing.assert_equal(*foci)


def leaves(path: Path) -> Iterator[tuple[str, Any]]:
    """Everything in a checkpoint, which holds plain containers and tensors only."""

    def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, each in value.items():
                assert isinstance(key, (str, int)), path
                yield from walk(each, f"{path}.{key}")
        elif isinstance(value, (list, tuple)):
            for index, each in enumerate(value):
                yield from walk(each, f"{path}.{index}")
        else:
            assert value is None or isinstance(value, (str, int, float, bool, torch.Tensor)), path
            yield path, value

    return walk(torch.load(path, weights_only=True), "")


@pytest.fixture(scope="module", params=[Kind(1, 200), Kind(1, 1), Kind(2, 3)], ids=str)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder, kind = tmp_path_factory.mktemp("whole"), request.param
    return Whole(kind, folder, kind.run(folder))


@pytest.mark.parametrize("seed", range(4))
def test_a_run_stopped_at_random_points_ends_the_same_and_repeats_no_step(
    tmp_path: Path, whole: Whole, seed: int
) -> None:
    chance, counter = random.Random(seed), CountSteps()  # noqa: S311 - not for secrets
    for signum in (signal.SIGTERM, signal.SIGINT):
        with pytest.raises(Interrupted) as stopped:
            whole.kind.run(tmp_path, counter, Signal(signum, chance.randrange(14)))
        assert stopped.value.code == 128 + signum
    module = whole.kind.run(tmp_path, counter)
    whole.assert_same(tmp_path, module, counter.steps)


def test_a_run_stopped_after_every_batch_ends_the_same(tmp_path: Path, whole: Whole) -> None:
    counter, kept = CountSteps(), tmp_path / "checkpoints" / "interrupted.ckpt"
    for _ in range(EPOCHS):
        for batch in range(6):  # the last is noticed in validation, which then is done again
            with pytest.raises(Interrupted):
                whole.kind.run(tmp_path, counter, Signal(signal.SIGTERM, 0))
            state = dict(leaves(kept))
            assert state[".batches"] == batch + 1
            assert state[".pending"] == (batch + 1) % whole.kind.accumulate
        with pytest.raises(Interrupted):
            whole.kind.run(tmp_path, counter, Signal(signal.SIGTERM, 1))  # while testing
        assert not kept.exists()  # the epoch has ended
    module = whole.kind.run(tmp_path, counter)
    whole.assert_same(tmp_path, module, counter.steps)


def test_a_signal_while_batches_pass_by_keeps_what_was_kept(tmp_path: Path, whole: Whole) -> None:
    class Early(pl.Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    counter, kept = CountSteps(), tmp_path / "checkpoints" / "interrupted.ckpt"
    with pytest.raises(Interrupted):
        whole.kind.run(tmp_path, counter, Signal(signal.SIGTERM, 3))
    before = kept.read_bytes()
    with pytest.raises(Interrupted):
        whole.kind.run(tmp_path, counter, Early())
    assert kept.read_bytes() == before
    whole.assert_same(tmp_path, whole.kind.run(tmp_path, counter), counter.steps)


@pytest.mark.parametrize("batch", [2, 10])
def test_a_torn_or_stale_middle_costs_the_epoch_and_no_more(
    tmp_path: Path, whole: Whole, batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    kept = tmp_path / "checkpoints" / "interrupted.ckpt"
    with pytest.raises(Interrupted):
        whole.kind.run(tmp_path, Signal(signal.SIGTERM, batch))
    kept.write_bytes(kept.read_bytes()[:1000])
    with pytest.raises(Interrupted):
        whole.kind.run(tmp_path, Signal(signal.SIGTERM, 12))
    assert "interrupted.ckpt is not a checkpoint that can be read" in caplog.text
    stale = kept.read_bytes()
    whole.kind.run(tmp_path)
    (tmp_path / "checkpoints" / "last.ckpt").unlink()
    kept.write_bytes(stale)  # of the second epoch or the third, but now the first comes
    module = whole.kind.run(tmp_path)
    whole.assert_same(tmp_path, module, module.global_step)


def test_a_disk_that_is_full_does_not_keep_a_run_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(resume, "atomic_write", fail)
    with pytest.raises(Interrupted):
        trained(tmp_path, callbacks=[Signal(signal.SIGTERM, 2)])
    assert "could not be saved: [Errno 28] No space left" in caplog.text


def test_a_finished_run_has_nothing_left_to_do(whole: Whole) -> None:
    (whole.folder / "focus.npz").unlink()
    module = whole.kind.run(whole.folder)
    assert same_weights(module, whole.module)
    assert module.series == whole.module.series
    assert module.seconds > whole.module.earlier_seconds
    assert (whole.folder / "focus.npz").exists()


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.system, ("true",)

    path = tmp_path / "x.ckpt"
    torch.save({"state_dict": Evil()}, path)
    with pytest.raises(UserError, match=r"x\.ckpt is not a checkpoint that can be read"):
        PlainCheckpointIO().load_checkpoint(path, weights_only=False)
    path.write_bytes(b"half")
    with pytest.raises(UserError, match="not a checkpoint"):
        load_checkpoint(path)
    PlainCheckpointIO().remove_checkpoint(path)
    assert not path.exists()


def test_without_links_the_best_checkpoint_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", no_links)
    trained(tmp_path, epochs=1, best_of="test/acc")
    last, best = (tmp_path / "checkpoints" / f"{name}.ckpt" for name in ("last", "best"))
    assert last.read_bytes() == best.read_bytes()


class TestInterruption:
    def test_a_second_signal_does_not_wait(self) -> None:
        def twice() -> None:
            with interruptible():
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGINT)
                pytest.fail("the second signal should not wait")

        with pytest.raises(Interrupted) as stopped:
            twice()
        assert stopped.value.signum == signal.SIGINT

    def test_one_at_the_very_end_counts_and_handlers_come_back(self) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(Interrupted), interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is before
        raise_if_interrupted()  # forgotten
