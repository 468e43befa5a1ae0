"""Checkpoints that load but do not fit: kept aside, and the run goes back as far as it must."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from focusing.callbacks import FocusTrajectory, StuckNeurons, Throughput
from focusing.training import resume
from focusing.training.checkpoint import (
    _optimizer_template,
    check_checkpoint,
    encode,
    load_checkpoint,
    newest_checkpoint,
)
from focusing.training.module import FocusingModule
from focusing.training.resume import Interrupted
from focusing.training.trainer import build_trainer
from focusing.validation import Wrong
from tests.unit.training.fitting import OPTIONS, Signal, net, optim, same_weights, trained

STRANGE: tuple[Any, ...] = (None, True, -1, 1.5, "x", [], [1], {}, {"x": 1}, float("nan"))
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


def mutations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """A container with something strange, or nothing, in each place of it in turn."""
    places = value if isinstance(value, dict) else range(min(len(value), 2))
    for key in places:
        for strange in (*STRANGE, ...):
            copy = list(value) if isinstance(value, list | tuple) else dict(value)
            if strange is not ...:
                copy[key] = strange
            else:
                del copy[key]
            yield (*path, key), copy
        if isinstance(value[key], dict | list | tuple) and value[key]:
            for below, changed in mutations(value[key], (*path, key)):
                copy = list(value) if isinstance(value, list | tuple) else dict(value)
                copy[key] = changed
                yield below, copy


def test_whole_checkpoints_fit(run: Path) -> None:
    module, trainer = fresh(run)
    for name in ("last", "best"):
        check_checkpoint(load_checkpoint(run / "checkpoints" / f"{name}.ckpt"), module, trainer)


@pytest.mark.parametrize("options", [{"name": "Adam"}, {"name": "RMSprop"}, {"momentum": 0.9}, {}])
def test_the_state_of_any_optimizer_is_known(tmp_path: Path, options: dict[str, Any]) -> None:
    settings = optim(**options)
    module = trained(tmp_path, settings=settings, epochs=1)
    like = _optimizer_template(FocusingModule(net(), settings))
    state = module.optimizer.state_dict()
    for place, moments in state["state"].items():
        shapes = {key: value.shape for key, value in moments.items() if value is not None}
        assert shapes == {key: value.shape for key, value in like["state"][place].items()
                          if value is not None}  # fmt: skip
    assert check_checkpoint(
        load_checkpoint(tmp_path / "checkpoints" / "last.ckpt"),
        FocusingModule(net(), settings),
        build_trainer({**OPTIONS, "max_epochs": 3}, tmp_path),
    ) is None  # fmt: skip


def test_damage_is_noticed(run: Path) -> None:
    """What passes has strange numbers in the right places, which do no harm."""
    module, trainer = fresh(run)
    content = load_checkpoint(run / "checkpoints" / "last.ckpt")
    passed = set()
    for path, mutated in mutations(content):
        try:
            check_checkpoint(mutated, module, trainer)
        except Wrong as error:
            str(error).encode()  # it can be printed
        else:
            passed.add(path)
    harmless = (
        "pytorch-lightning_version",
        "seconds",
        "cpu_seconds",
        "series",
        "loops",
        "callbacks",
    )
    groups = ("optimizer_states", 0, "param_groups")
    other = {path for path in passed if path[0] not in harmless and path[:3] != groups}
    moments = ("optimizer_states", 0, "state")  # a parameter may have none yet
    assert {path for path in other if path[:3] != moments or len(path) > 4} <= {("lr_schedulers",)}


def _write(path: Path, content: Any) -> None:
    path.write_bytes(encode(content))


@pytest.mark.parametrize("key", ["state_dict", "optimizer_states", "loops", "series", "callbacks"])
def test_a_run_goes_back_to_its_best_epoch_or_begins_again(
    tmp_path: Path, run: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    content = load_checkpoint(run / "checkpoints" / "last.ckpt")
    (folder / "best.ckpt").write_bytes((run / "checkpoints" / "best.ckpt").read_bytes())
    _write(folder / "last.ckpt", {**content, key: None})
    with caplog.at_level(logging.WARNING):
        assert newest_checkpoint(folder, *fresh(run)) == folder / "best.ckpt"
    assert "last.ckpt does not fit this run: " in caplog.text
    assert (folder / "last.ckpt.damaged").exists()
    (folder / "best.ckpt").write_bytes(b"torn")
    assert newest_checkpoint(folder, *fresh(run)) is None
    assert sorted(path.name for path in folder.iterdir()) == [
        "best.ckpt.damaged", "last.ckpt.damaged"
    ]  # fmt: skip


def test_the_best_epoch_leads_to_the_same_end(tmp_path: Path, run: Path) -> None:
    whole = trained(tmp_path / "whole", callbacks=callbacks())
    best = run / "checkpoints" / "best.ckpt"
    again = trained(tmp_path / "again", callbacks=callbacks(), resume_from=best.parent)
    assert same_weights(whole, again)


def test_any_damage_to_the_middle_costs_the_epoch_and_no_more(
    tmp_path: Path, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In process: each mutation is checked as it would be when training starts."""
    state = load_checkpoint(run / "checkpoints" / "interrupted.ckpt")
    module = trained(tmp_path, callbacks=callbacks(), epochs=2)
    resume._check(state, module)
    passed = set()
    for path, mutated in mutations(state):
        try:
            resume._check(mutated, module)
        except Wrong as error:
            str(error).encode()  # it can be printed
        else:
            passed.add(path)
            restored: Tensor = mutated["seen"][0]
            assert len(restored) == len(mutated["seen"][1])
    assert {path[0] for path in passed} <= {
        *("epoch", "batches", "pending", "steps", "seconds", "gradients", "random", "callbacks"),
        "cpu_seconds",
        "optimizer",
    }
    kept = tmp_path / "checkpoints" / "interrupted.ckpt"
    _write(kept, {**state, "net": {}})
    assert resume.load_mid_epoch(module) is None
    assert "the epoch begins again" in caplog.text
    assert not kept.exists()
    assert kept.with_name("interrupted.ckpt.damaged").exists()


def test_a_run_whose_middle_is_damaged_ends_the_same(tmp_path: Path, run: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for name in ("last.ckpt", "interrupted.ckpt"):
        (folder / name).write_bytes((run / "checkpoints" / name).read_bytes())
    state = load_checkpoint(folder / "interrupted.ckpt")
    _write(folder / "interrupted.ckpt", {**state, "gradients": state["gradients"][1:]})
    again = trained(tmp_path, callbacks=callbacks(), resume_from=folder)
    assert same_weights(trained(tmp_path / "whole", callbacks=callbacks()), again)


def test_nobody_counts_the_step_that_is_none() -> None:
    steps: list[Any] = []
    hook = register_optimizer_step_post_hook(lambda *step: steps.append(step))
    assert _optimizer_template(FocusingModule(net(), optim(name="Adam")))["state"]
    hook.remove()
    assert not steps
