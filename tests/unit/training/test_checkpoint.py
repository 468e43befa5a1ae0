"""Checkpoints that cannot be read or do not fit: kept aside, and the run goes back."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from focusing.callbacks import ClipFoci, FocusTrajectory, StuckNeurons, Throughput
from focusing.errors import UserError
from focusing.training import resume
from focusing.training.checkpoint import (
    PlainCheckpointIO,
    check_checkpoint,
    check_optimizer,
    encode,
    load_checkpoint,
    newest_checkpoint,
)
from focusing.training.module import FocusingModule
from focusing.training.resume import Interrupted
from focusing.training.trainer import build_trainer
from focusing.validation import Wrong
from tests.unit.training.fitting import OPTIONS, Signal, net, optim, same_weights, trained

STRANGE: tuple[Any, ...] = (None, True, -1, "x", [1], {"x": 1}, float("nan"))
STRANGE += (torch.zeros(3, 7), torch.zeros(2, dtype=torch.complex64))


def callbacks() -> list[Any]:
    return [FocusTrajectory(), Throughput(), StuckNeurons()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stopped in the middle of its third epoch."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.raises(Interrupted):
        trained(folder, callbacks=[*callbacks(), Signal(15, 14)], best_of="test/acc")
    return folder


def fresh(folder: Path) -> tuple[FocusingModule, Any]:
    module = FocusingModule(net(), optim())
    return module, build_trainer({**OPTIONS, "max_epochs": 3}, folder, callbacks=callbacks())


def changed(container: Any, key: Any, value: Any) -> Any:
    """A copy with another value under a key; without the key if the value is ``...``."""
    copy = list(container) if isinstance(container, list | tuple) else dict(container)
    copy[key] = value
    if value is ...:
        del copy[key]
    return copy


def mutations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """A container with something strange, or nothing, in every place of it in turn."""
    for key in value if isinstance(value, dict) else range(min(len(value), 2)):
        for strange in (*STRANGE, ...):
            yield (*path, key), changed(value, key, strange)
        if isinstance(value[key], dict | list | tuple) and value[key]:
            for below, mutated in mutations(value[key], (*path, key)):
                yield below, changed(value, key, mutated)


def unnoticed(state: Any, check: Callable[[Any], None]) -> set[tuple[Any, ...]]:
    """The places where a mutation passes a check that passes the state itself."""
    check(state)
    passed = set()
    for path, mutated in mutations(state):
        try:
            check(mutated)
        except Wrong as error:
            str(error).encode()  # it can be printed
        else:
            passed.add(path)
    return passed


def test_damage_is_noticed(run: Path) -> None:
    """What passes has strange numbers in the right places, which do no harm."""
    content = load_checkpoint(run / "checkpoints" / "last.ckpt")
    module, trainer = fresh(run)
    passed = unnoticed(content, lambda state: check_checkpoint(state, module, trainer))
    harmless = {"pytorch-lightning_version", "seconds", "cpu_seconds", "series", "loops"}
    harmless |= {"callbacks", "test_metrics"}
    groups, moments = ("param_groups", "state")  # a parameter may have no moments yet
    other = {path for path in passed if path[0] not in harmless and path[2:3] != (groups,)}
    assert {path for path in other if path[2:3] != (moments,) or len(path) > 4} <= {
        ("lr_schedulers",)
    }


def test_damage_to_a_mid_epoch_state_is_noticed(
    tmp_path: Path, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = load_checkpoint(run / "checkpoints" / "interrupted.ckpt")
    module = trained(tmp_path, callbacks=callbacks(), epochs=2)
    passed = unnoticed(state, lambda mutated: resume._check(mutated, module))
    assert {path[0] for path in passed} <= {
        *("epoch", "batches", "pending", "steps", "seconds", "cpu_seconds"),
        *("gradients", "random", "callbacks", "optimizer"),
    }
    kept = tmp_path / "checkpoints" / "interrupted.ckpt"
    kept.write_bytes(encode({**state, "net": {}}))
    assert resume.load_mid_epoch(module) is None
    assert "the epoch begins again" in caplog.text
    assert not kept.exists()
    assert kept.with_name("interrupted.ckpt.damaged").exists()


def test_a_run_whose_files_are_damaged_ends_the_same(tmp_path: Path, run: Path) -> None:
    whole = trained(tmp_path / "whole", callbacks=callbacks())
    last, best, kept = ("last.ckpt", "best.ckpt", "interrupted.ckpt")
    for names in ([best], [last, kept]):
        folder = tmp_path / names[0] / "checkpoints"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes((run / "checkpoints" / name).read_bytes())
        if kept in names:
            state = load_checkpoint(folder / kept)
            gradients = state["gradients"][1:]
            (folder / kept).write_bytes(encode({**state, "gradients": gradients}))
        assert same_weights(whole, trained(folder.parent, callbacks=callbacks()))


@pytest.mark.parametrize("key", ["state_dict", "optimizer_states", "loops", "series", "callbacks"])
def test_a_run_goes_back_to_its_best_epoch_or_begins_again(
    tmp_path: Path, run: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    last, best = tmp_path / "last.ckpt", tmp_path / "best.ckpt"
    content = load_checkpoint(run / "checkpoints" / "last.ckpt")
    best.write_bytes((run / "checkpoints" / "best.ckpt").read_bytes())
    last.write_bytes(encode({**content, key: None}))
    with caplog.at_level(logging.WARNING):
        assert newest_checkpoint(tmp_path, *fresh(run)) == best
    assert "last.ckpt does not fit this run: " in caplog.text
    best.write_bytes(b"torn")
    assert newest_checkpoint(tmp_path, *fresh(run)) is None
    kept = ["best.ckpt.damaged", "last.ckpt.damaged"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


@pytest.mark.parametrize(
    "options",
    [{"name": "Adam"}, {"name": "RMSprop"}, {"momentum": 0.9}, {}, {"foci": {"name": "Adam"}}],
)
def test_the_state_of_any_optimizer_is_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    settings = optim(**options)
    module = trained(tmp_path, settings=settings, epochs=1, callbacks=[ClipFoci()])
    counted: list[Any] = []
    hook = register_optimizer_step_post_hook(lambda *step: counted.append(step))
    state, other = module.optimizer.state_dict(), FocusingModule(net(), settings)
    check_optimizer(state, other)
    for moments in state["state"].values():
        for name, value in moments.items():
            if value is not None:
                moments[name] = torch.zeros(3, 7)
                with pytest.raises(Wrong, match="has shape"):
                    check_optimizer(state, other)
                moments[name] = value
    hook.remove()
    assert not counted  # the step on the meta device is nobody's


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
