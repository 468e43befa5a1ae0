"""Checkpoints that cannot be read or do not fit: kept aside, and the run goes back."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from focusing.callbacks import FocusTrajectory, StuckNeurons, Throughput
from focusing.errors import UserError
from focusing.training.checkpoint import (
    PlainCheckpointIO,
    load_checkpoint,
    load_verified,
    newest_checkpoint,
)
from focusing.training.module import FocusingModule
from focusing.training.resume import Interrupted
from tests.unit.training.fitting import Signal, net, optim, same_weights, trained


def callbacks() -> list[Any]:
    return [FocusTrajectory(), Throughput(), StuckNeurons()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in its third epoch."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.raises(Interrupted):
        trained(folder, callbacks=[*callbacks(), Signal(15, 14)], best_of="test/acc")
    return folder


def resaved(path: Path, change: dict[str, Any]) -> bytes:
    """A checkpoint with other values, without a hash."""
    buffer = io.BytesIO()
    torch.save({**load_checkpoint(path), **change}, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["last.ckpt", "interrupted.ckpt"])
def test_a_modified_checkpoint_is_renamed(
    tmp_path: Path, run: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    module, good = FocusingModule(net(), optim()), run / "checkpoints" / name
    content, path = good.read_bytes(), tmp_path / name
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1  # of a tensor: torch would not notice
    keys = ("state_dict", "optimizer_states", "loops", "series", "callbacks", "net", "gradients")
    changed = [resaved(good, {key: None}) for key in keys if key in load_checkpoint(good)]
    for damaged in (bytes(flipped), content + b"x", *changed):
        path.write_bytes(damaged)
        assert load_verified(path, module, "all begins again") is None
        assert path.with_name(f"{name}.damaged").read_bytes() == damaged
        assert "all begins again" in caplog.text
        assert not path.exists()
    path.write_bytes(content)
    assert load_verified(path, module, "") is not None


@pytest.mark.parametrize(
    "other",
    [
        FocusingModule(net(hidden=[5]), optim()),
        FocusingModule(net(), optim(name="Adam")),
        FocusingModule(net(train_mu=False), optim()),
    ],
)
def test_a_checkpoint_of_another_network_or_optimizer_is_renamed(
    tmp_path: Path, run: Path, other: FocusingModule, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "last.ckpt"
    path.write_bytes((run / "checkpoints" / "last.ckpt").read_bytes())
    assert newest_checkpoint(tmp_path, other) is None
    assert "last.ckpt does not fit this run" in caplog.text


def test_a_run_with_damaged_checkpoints_ends_the_same(tmp_path: Path, run: Path) -> None:
    whole = trained(tmp_path / "whole", callbacks=callbacks())
    last, best, kept = ("last.ckpt", "best.ckpt", "interrupted.ckpt")
    for names in ([best], [last, kept]):
        folder = tmp_path / names[0] / "checkpoints"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes((run / "checkpoints" / name).read_bytes())
        if kept in names:
            (folder / kept).write_bytes(resaved(folder / kept, {"gradients": []}))
        assert same_weights(whole, trained(folder.parent, callbacks=callbacks()))


def test_the_best_checkpoint_replaces_a_damaged_last_one(
    tmp_path: Path, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module = FocusingModule(net(), optim())
    last, best = tmp_path / "last.ckpt", tmp_path / "best.ckpt"
    best.write_bytes((run / "checkpoints" / "best.ckpt").read_bytes())
    last.write_bytes(resaved(run / "checkpoints" / "last.ckpt", {"epoch": 1}))
    assert newest_checkpoint(tmp_path, module) == best
    assert "last.ckpt has changed since a run wrote it" in caplog.text
    best.write_bytes(b"torn")
    assert newest_checkpoint(tmp_path, module) is None
    kept = ["best.ckpt.damaged", "last.ckpt.damaged"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


def test_malicious_and_damaged_files_are_refused(tmp_path: Path) -> None:
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
