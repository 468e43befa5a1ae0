"""A run that is stopped and resumed ends bit for bit like one that was not."""

import operator
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig

from focusing.callbacks import ClipFoci, DeadInputs, FocusTrajectory, StuckNeurons, Throughput
from focusing.compose import compose_config
from focusing.errors import UserError
from focusing.run import train
from focusing.training import resume, trainer
from focusing.training.loggers import build_loggers
from focusing.training.module import FocusingModule
from focusing.training.resume import Interrupted, interruptible, raise_if_interrupted
from tests.unit.data import makers
from tests.unit.training.fitting import CountSteps, Signal, net, optim, same_weights, trained

EPOCHS = 3


@dataclass
class Kind:
    """Settings of a run with everything that has state: dropout, momentum, callbacks, ..."""

    accumulate: int
    bundle: int
    precision: str = "32-true"

    def run(self, folder: Path, *more: pl.Callback) -> FocusingModule:
        folder.mkdir(exist_ok=True)
        foci = {"name": "Adam"} if self.accumulate > 1 else {}  # beside SGD
        decay = {"decay_epochs": [1], "decay": 0.5, "anneal_from": 3, "anneal_epochs": 3}
        measuring = [FocusTrajectory(), StuckNeurons(), Throughput(), DeadInputs()]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trainer, "MAX_BUNDLE", self.bundle)
            return trained(
                folder,
                network=net(input_dropout=0.2, dropout=[0.25]),
                settings=optim(
                    momentum=0.9, batch_size=10, accumulate=self.accumulate, foci=foci, **decay
                ),
                callbacks=[ClipFoci(), *measuring, *more],
                loggers=build_loggers({}, folder, config={}, experiment="x"),
                epochs=EPOCHS,
                best_of="val/acc",
                holdout=True,
                precision=self.precision,
            )


@dataclass
class Whole:
    """A run that was not interrupted."""

    kind: Kind
    folder: Path
    module: FocusingModule

    def assert_same(self, folder: Path, module: FocusingModule, steps: int) -> None:
        """Check that another run left the same files and values, except for times."""
        assert steps == module.global_step == self.module.global_step
        assert not (folder / "checkpoints" / "interrupted.ckpt").exists()
        for name in ("last.ckpt", "best.ckpt"):
            one, two = (dict(leaves(run / "checkpoints" / name)) for run in (folder, self.folder))
            assert one.keys() == two.keys()
            for path, value in one.items():
                if not path.endswith(("seconds", "peak_memory_bytes")):
                    same = torch.equal if isinstance(value, torch.Tensor) else operator.eq
                    assert same(value, two[path]), path
        assert module.series == self.module.series
        assert module.test_metrics == self.module.test_metrics is not None
        assert (folder / "metrics.csv").read_text() == (self.folder / "metrics.csv").read_text()
        for name in ("focus.npz", "dead_inputs.npz"):
            np.testing.assert_equal(*(dict(np.load(run / name)) for run in (folder, self.folder)))


def leaves(path: Path) -> Iterator[tuple[str, Any]]:
    """Values in a checkpoint by path; only plain containers and tensors are allowed."""

    def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, (dict, list, tuple)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, below in items:
                assert isinstance(key, (str, int)), path
                yield from walk(below, f"{path}.{key}")
        else:
            assert value is None or isinstance(value, (str, int, float, bool, torch.Tensor)), path
            yield path, value

    return walk(torch.load(path, weights_only=True), "")


@pytest.fixture(scope="module", params=[Kind(1, 200), Kind(2, 3), Kind(1, 3, "16-mixed")], ids=str)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder, kind = tmp_path_factory.mktemp("whole"), request.param
    return Whole(kind, folder, kind.run(folder))


def test_stopping_after_every_batch_changes_nothing(tmp_path: Path, whole: Whole) -> None:
    counter, kept = CountSteps(), tmp_path / "checkpoints" / "interrupted.ckpt"
    for signum in (signal.SIGTERM, signal.SIGINT):  # an epoch each
        for batch in range(6):  # the last is noticed in validation, which then is done again
            with pytest.raises(Interrupted) as stopped:
                whole.kind.run(tmp_path, counter, Signal(signum, 0))
            assert stopped.value.code == 128 + signum
            state = dict(leaves(kept))
            assert state[".batches"] == batch + 1
            assert state[".pending"] == (batch + 1) % whole.kind.accumulate
        with pytest.raises(Interrupted):
            whole.kind.run(tmp_path, counter, Signal(signal.SIGTERM, 1))  # while testing
        assert not kept.exists()  # the epoch has ended
    module = whole.kind.run(tmp_path, counter)
    whole.assert_same(tmp_path, module, counter.steps)


def test_a_signal_while_skipping_batches_keeps_the_saved_state(
    tmp_path: Path, whole: Whole
) -> None:
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


def test_a_damaged_or_stale_mid_epoch_state_restarts_the_epoch(
    tmp_path: Path, whole: Whole, caplog: pytest.LogCaptureFixture
) -> None:
    kept = tmp_path / "checkpoints" / "interrupted.ckpt"
    with pytest.raises(Interrupted):
        whole.kind.run(tmp_path, Signal(signal.SIGTERM, 10))
    kept.write_bytes(kept.read_bytes()[:1000])
    with pytest.raises(Interrupted):
        whole.kind.run(tmp_path, Signal(signal.SIGTERM, 3))
    assert "interrupted.ckpt is not a checkpoint that can be read" in caplog.text
    stale = kept.read_bytes()
    whole.kind.run(tmp_path)
    (tmp_path / "checkpoints" / "last.ckpt").unlink()
    (tmp_path / "checkpoints" / "best.ckpt").unlink()
    kept.write_bytes(stale)  # of the second epoch, but now the first comes
    module = whole.kind.run(tmp_path)
    whole.assert_same(tmp_path, module, module.global_step)


def test_resuming_a_finished_run_changes_nothing(whole: Whole) -> None:
    (whole.folder / "focus.npz").unlink()
    module = whole.kind.run(whole.folder)
    assert same_weights(module, whole.module)
    assert module.series == whole.module.series
    assert module.test_metrics == whole.module.test_metrics
    assert module.seconds > whole.module.earlier_seconds
    assert (whole.folder / "focus.npz").exists()


def test_a_run_stops_even_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(resume, "atomic_write", fail)
    with pytest.raises(Interrupted):
        trained(tmp_path, callbacks=[Signal(signal.SIGTERM, 2)])
    assert "could not be saved: [Errno 28] No space left" in caplog.text


def test_a_second_signal_stops_at_once() -> None:
    def twice() -> None:
        with interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("the second signal should stop at once")

    with pytest.raises(Interrupted) as stopped:
        twice()
    assert stopped.value.signum == signal.SIGINT


def test_a_late_signal_counts_and_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted), interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    raise_if_interrupted()  # forgotten


class TestOtherData:
    """Runs whose data has changed since they started."""

    @pytest.fixture
    def cfg(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DictConfig:
        monkeypatch.setenv("FOCUSING_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # no server there
        makers.digits(tmp_path / "data" / "mnist")
        overrides = [
            *("data=mnist", "data.on_missing=error", "model=dense", "model.hidden=[4,4]"),
            *("debug=fast", "callbacks=none", "figures=false"),
            *(f"paths.data_dir={tmp_path / 'data'}", f"paths.output_dir={tmp_path / 'outputs'}"),
        ]
        return compose_config(*overrides)

    def test_a_finished_run_is_not_reused(
        self,
        cfg: DictConfig,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        score = train(cfg)
        with monkeypatch.context() as patch:  # reuse prepares no data
            patch.setattr("focusing.data.dataset.Preparation.fit", None)
            assert train(cfg) == score
        assert "Finished earlier" in capsys.readouterr().out
        makers.digits(tmp_path / "data" / "mnist")
        with pytest.raises(
            UserError,
            match=r"seed=0 was trained on other data: local, fingerprint \w{16}; now data=mnist is "
            r"local, fingerprint \w{16}; force=true runs it again\.$",
        ):
            train(cfg)
        cfg.force = True
        train(cfg)
        cfg.force = False
        shutil.rmtree(tmp_path / "data")  # missing files count as unchanged
        train(cfg)
        assert "Finished earlier" in capsys.readouterr().out

    def test_a_checkpoint_is_not_resumed(self, cfg: DictConfig, tmp_path: Path) -> None:
        train(cfg)
        [record] = (tmp_path / "outputs").glob("*/*/seed=0/result.json")
        record.unlink()  # as if it had been killed at the very end
        train(cfg)
        record.unlink()
        makers.digits(tmp_path / "data" / "mnist")
        remedy = r"now data=mnist is local.*; resume=never begins again\."
        with pytest.raises(UserError, match=remedy):
            train(cfg)
        assert not record.exists()
        cfg.resume = "never"
        train(cfg)
        assert record.exists()


def test_random_numbers_of_other_devices_are_seeded_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of Apple's GPUs, none of which is needed here."""
    calls: list[Any] = []
    monkeypatch.setattr(torch.mps, "manual_seed", lambda seed: calls.append(seed))
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda device: f"state of {device}")
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda *arguments: calls.append(arguments))
    device = torch.device("mps")
    resume.seed_all(7, device)
    state = resume.random_state(device)
    resume.set_random_state(state, torch.device("cpu"))
    resume.set_random_state(state, device)
    assert calls == [7, ("state of mps", device)]
