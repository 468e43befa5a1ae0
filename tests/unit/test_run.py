"""`train` and `evaluate`, called as functions."""

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
from omegaconf import DictConfig

import focusing.run
import focusing.training.trainer
from focusing import drawing
from focusing.compose import compose_config
from focusing.errors import DivergedError, UserError
from focusing.results.store import has_figures, read_record
from focusing.run import train
from focusing.shipping.trained import evaluate
from focusing.training.checkpoint import PlainCheckpointIO


def config(folder: Path, *overrides: str, data: str = "synthetic") -> DictConfig:
    fewer = "data.n_samples=100" if data == "synthetic" else "data.fake=true"
    small = [f"data={data}", fewer, "trainer.max_epochs=2", f"paths.output_dir={folder}"]
    return compose_config(*small, "figures=false", *overrides)


def folder_of(folder: Path) -> Path:
    [run_dir] = folder.glob("*/*/seed=*")
    return run_dir


def test_train_returns_the_score_and_reuses_a_finished_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = config(tmp_path, "protocol=last", "figures=true")
    score = train(cfg)
    record = read_record(folder_of(tmp_path))
    assert record is not None
    assert score == record["scores"]["last"]["value"] == record["series"]["test/acc"][-1]
    assert list((folder_of(tmp_path) / "figures").iterdir())
    assert train(cfg) == score
    assert "Finished earlier" in capsys.readouterr().out
    assert evaluate(folder_of(tmp_path))["test/acc"] == score


def test_seeds_share_a_hash_but_not_a_folder(tmp_path: Path) -> None:
    train(config(tmp_path)), train(config(tmp_path, "seed=1"))
    zero, one = (read_record(run_dir) or {} for run_dir in sorted(tmp_path.glob("*/*/seed=*")))
    assert (zero["seed"], one["seed"]) == (0, 1)
    assert zero["config_hash"] == one["config_hash"]
    assert zero["series"] != one["series"]
    assert zero["data"]["fingerprint"] == one["data"]["fingerprint"]


def test_kernels_are_compiled_before_the_clock_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    module = focusing.run.FocusingModule

    def start_clock(*args: Any, **options: Any) -> Any:
        events.append("clock")
        return module(*args, **options)

    monkeypatch.setattr(focusing.run, "compile_kernels", events.append)
    monkeypatch.setattr(focusing.run, "FocusingModule", start_clock)
    train(config(tmp_path, "callbacks=none", "trainer.max_epochs=1"))
    assert events == [{1}, "clock"]  # foci on a line


def test_a_run_says_at_which_epoch_it_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Raise(pl.Callback):
        def on_train_epoch_start(self, trainer: pl.Trainer, *_: Any) -> None:
            if trainer.current_epoch == 1:
                raise RuntimeError

    with monkeypatch.context() as context:
        context.setattr(focusing.run, "build_callbacks", lambda *_: [Raise()])
        with pytest.raises(RuntimeError):
            train(config(tmp_path))
    assert "Continuing" not in capsys.readouterr().out
    train(config(tmp_path))
    assert "Continuing at epoch 2.\n" in capsys.readouterr().out


def test_record_without_callbacks(tmp_path: Path) -> None:
    train(config(tmp_path, "callbacks=none"))
    record = read_record(folder_of(tmp_path)) or {}
    assert record["steps_per_second"] is None
    assert "focus" not in record


def test_record_holds_the_measurements_of_callbacks(tmp_path: Path) -> None:
    chosen = "callbacks=[default,measure]"
    small = [
        "callbacks.explanation=null",
        "callbacks.pruning.points=2",
        "callbacks.timing.rounds=1",
        "trainer.limit_batches=2",
    ]
    train(config(tmp_path, chosen, *small))
    record = read_record(folder_of(tmp_path)) or {}
    measured = record["measured"]
    assert measured.keys() == {"stuck", "pruning", "dead_inputs", "timing"}
    assert not [name for name, result in measured.items() if "error" in result]
    assert record["test_metrics"]["accuracy"] == pytest.approx(record["scores"]["last"]["value"])
    assert measured["pruning"]["curve"][0]["acc"] == record["scores"]["last"]["value"]
    assert (folder_of(tmp_path) / measured["dead_inputs"]["file"]).exists()
    assert record["steps_per_second"] > 0
    assert "hidden1" in record["focus"]


def test_divergence_is_recorded(tmp_path: Path) -> None:
    cfg = config(tmp_path, "model.batch_norm=false", "optim.lr=1e12")
    with pytest.raises(DivergedError, match="try a smaller optim.lr"):
        train(cfg)
    record = read_record(folder_of(tmp_path)) or {}
    assert record["status"] == "failed"
    assert "after epoch" in record["error"]
    with pytest.raises(DivergedError):  # a failed run is not finished
        train(cfg)


class Measures(pl.Callback):
    """A callback with a measurement that no record can hold."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def measurements(self, record: Any) -> dict[str, Any]:
        if isinstance(self.value, Exception):
            raise self.value
        return {"measured": {"mine": {"value": self.value}}}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), r"measured\.mine\.value is nan"),
        ({1}, "Object of type set"),
        (KeyError("lost"), "lost"),
    ],
)
def test_a_bad_measurement_leaves_a_failed_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, reason: str
) -> None:
    monkeypatch.setattr(focusing.run, "build_callbacks", lambda *_: [Measures(value)])
    with pytest.raises((UserError, KeyError), match=reason):
        train(config(tmp_path))
    record = read_record(folder_of(tmp_path)) or {}
    assert record["status"] == "failed"
    assert re.search(reason, record["error"])


def test_a_missing_accelerator_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match=r"trainer: .*xla"):
        train(config(tmp_path, "trainer.accelerator=tpu"))
    sentence = "trainer.accelerator=gpu: .* use trainer.accelerator=cpu or auto"
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(UserError, match=sentence):
        train(config(tmp_path, "trainer=gpu"))
    assert not list(tmp_path.iterdir())
    train(config(tmp_path))
    with pytest.raises(UserError, match=sentence):  # a finished run is not shown instead
        train(config(tmp_path, "trainer=gpu"))


def test_incomplete_figures_are_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = drawing.atomic_write, []

    def full_disk(path: Path, content: Any, **options: Any) -> None:
        written.append(path)
        if len(written) == 3:  # the disk is full in the middle of a file
            write(path, content[:100], **options)
            path.unlink()
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content, **options)

    with monkeypatch.context() as context:
        context.setattr(drawing, "atomic_write", full_disk)
        with pytest.raises(UserError, match="The disk is full"):
            train(config(tmp_path, "figures=true"))
    folder = folder_of(tmp_path)
    assert (read_record(folder) or {})["status"] == "done"
    drawn = len(list((folder / "figures").iterdir()))
    assert not has_figures(folder)
    train(config(tmp_path, "figures=true"))
    assert has_figures(folder)
    assert len(list((folder / "figures").iterdir())) > drawn + 1


def test_disk_errors_become_user_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, sentence in {errno.ENOSPC: "The disk is full", errno.EACCES: "Permission"}.items():

        def fail(*_: Any, number: int = number, **__: Any) -> None:
            raise OSError(number, os.strerror(number), "the file")

        monkeypatch.setattr(PlainCheckpointIO, "save_checkpoint", fail)
        with pytest.raises(UserError, match=sentence):
            train(config(tmp_path))


def test_missing_data_is_a_user_error_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "mnist.gz")

    monkeypatch.setattr(focusing.training.trainer, "instantiate", missing)
    with pytest.raises(UserError, match=r"data=synthetic: mnist\.gz is missing"):
        train(config(tmp_path))
    assert list(tmp_path.iterdir()) == []


class TestEvaluate:
    def test_a_run_without_a_finished_epoch_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Raise(pl.Callback):
            def on_train_batch_start(self, *_: Any) -> None:
                raise RuntimeError("early")

        monkeypatch.setattr(focusing.run, "build_callbacks", lambda *_: [Raise()])
        with pytest.raises(RuntimeError):
            train(config(tmp_path))
        assert (read_record(folder_of(tmp_path)) or {})["error"] == "RuntimeError('early')"
        with pytest.raises(UserError, match="its first epoch has not ended"):
            evaluate(folder_of(tmp_path))

    def test_other_data(self, tmp_path: Path) -> None:
        train(config(tmp_path))
        shifted = evaluate(folder_of(tmp_path), ["data.noise_position=right"])
        assert shifted["test/acc"] != evaluate(folder_of(tmp_path))["test/acc"]
        with pytest.raises(UserError, match="25 inputs and 2 outputs does not fit"):
            evaluate(folder_of(tmp_path), ["data.noise=5"])

    def test_other_data_is_prepared_like_the_training_data(self, tmp_path: Path) -> None:
        options = ["model=dense", "data.split=official", "protocol=holdout"]  # standardised
        train(config(tmp_path, *options, data="boston"))
        run = folder_of(tmp_path)
        own = evaluate(run)
        assert evaluate(run, ["data.limit_train=20"]) == own
        assert evaluate(run, ["data=boston", "data.fake=true", "data.split=official"]) == own
        assert evaluate(run, ["data.limit_train=20", "data.preprocess=standard"]) != own
        assert evaluate(run, ["data.preprocess=none"]) != own

    def test_data_of_another_shape_is_refused(self, tmp_path: Path) -> None:
        options = ["model=dense", "model.hidden=[4,4]", "data.preprocess=pixel_mean"]
        train(config(tmp_path, *options, data="fashion"))
        with pytest.raises(UserError, match="trained on fashion: samples of lfw have another"):
            evaluate(folder_of(tmp_path), ["data=lfw", "data.fake=true"])
        with pytest.raises(UserError, match=r"1850 inputs and \d+ outputs does not fit"):
            evaluate(folder_of(tmp_path), ["data=lfw", "data.fake=true", "data.preprocess=unit"])
