"""A run that is stopped and continued is the run that was not, bit for bit."""

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from focusing.callbacks import ClipFoci, FocusTrajectory, StuckNeurons, Throughput
from focusing.errors import UserError
from focusing.training import session
from focusing.training.checkpoint import PlainCheckpointIO, load_checkpoint
from focusing.training.interruption import Interrupted, interruptible, raise_if_interrupted
from focusing.training.loggers import build_loggers
from focusing.training.module import FocusingModule
from tests.unit.training.fitting import net, optim, same_weights, trained

EPOCHS = 6


class Signal(pl.Callback):
    """Sends this process a signal before a given batch of all."""

    def __init__(self, signum: int, batch: int) -> None:
        self.signum, self.left = signum, batch

    def _count(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), self.signum)
        self.left -= 1

    def on_train_batch_start(self, *_: Any) -> None:
        self._count()

    def on_validation_batch_start(self, *_: Any) -> None:
        self._count()

    def on_train_epoch_end(self, *_: Any) -> None:
        self._count()


def run(folder: Path, *more: pl.Callback) -> FocusingModule:
    """A run with everything that has a state: dropout, batch norm, momentum, callbacks."""
    folder.mkdir(exist_ok=True)
    last = folder / "checkpoints" / "last.ckpt"
    return trained(
        folder,
        network=net(input_dropout=0.2, dropout=[0.25]),
        settings=optim(momentum=0.9, decay_epochs=[2], decay=0.5, anneal_from=3, anneal_epochs=4),
        callbacks=[ClipFoci(), FocusTrajectory(), StuckNeurons(), Throughput(), *more],
        loggers=build_loggers({}, folder, config={}, experiment="x"),
        epochs=EPOCHS,
        checkpoint=last if last.exists() else None,
        best_of="test/acc",
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FocusingModule]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    return folder, run(folder)


@pytest.mark.parametrize("seed", range(6))
def test_a_run_stopped_at_random_points_ends_the_same(
    tmp_path: Path,
    uninterrupted: tuple[Path, FocusingModule],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "BUNDLE_MOST", 1 + seed % 2)
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    for signum in (signal.SIGTERM, signal.SIGINT):
        with pytest.raises(Interrupted) as stopped:
            run(tmp_path, Signal(signum, chance.randrange(10)))
        assert stopped.value.code == 128 + signum
    module = run(tmp_path)
    folder, expected = uninterrupted
    assert same_weights(module, expected)
    assert module.series == expected.series
    assert (tmp_path / "metrics.csv").read_text() == (folder / "metrics.csv").read_text()
    for name in ("last", "best"):
        paths = (each / "checkpoints" / f"{name}.ckpt" for each in (tmp_path, folder))
        one, two = map(load_checkpoint, paths)
        assert one["epoch"] == two["epoch"]
        assert one["global_step"] == two["global_step"]
        momenta = (each["optimizer_states"][0]["state"] for each in (one, two))
        torch.testing.assert_close(*momenta, rtol=0, atol=0)


def test_a_finished_run_has_nothing_left_to_do(
    uninterrupted: tuple[Path, FocusingModule],
) -> None:
    folder, expected = uninterrupted
    (folder / "focus.npz").unlink()
    module = run(folder)
    assert same_weights(module, expected)
    assert module.series == expected.series
    assert module.seconds > expected._earlier
    assert (folder / "focus.npz").exists()


def test_checkpoints_hold_plain_containers_and_tensors(
    uninterrupted: tuple[Path, FocusingModule],
) -> None:
    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                assert isinstance(key, (str, int)), path
                walk(each, f"{path}.{key}")
        elif isinstance(value, (list, tuple)):
            for each in value:
                walk(each, path)
        else:
            assert value is None or isinstance(value, (str, int, float, bool, torch.Tensor)), path

    walk(torch.load(uninterrupted[0] / "checkpoints" / "last.ckpt", weights_only=True), "")


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
