"""Stacked trials give the results of single Lightning runs.

Compared in float64: stacks sum in another order, and in float32 the effect depends on the CPU.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

from benchmarks.layer import PeakMemory
from focusing.compose import check_config, compose_config
from focusing.data import Split
from focusing.errors import UserError
from focusing.experiments.stack import History, Stack, fit_stack, trial_bytes
from focusing.experiments.stack_records import (
    Pair,
    _shape,
    estimate_seconds,
    group_trials,
    train_group,
)
from focusing.experiments.table1 import pair_of
from focusing.experiments.table1_trials import apply_trial, draw
from focusing.results.identity import run_folder
from focusing.results.store import read_record
from focusing.run import train
from focusing.shipping.trained import evaluate
from focusing.training.checkpoint import load_checkpoint
from tests.unit.experiments.composed import checked

CPU = torch.device("cpu")
DOUBLE = "trainer.precision=64-true"
# These contain all samples, lengths, widths, classes and rates of the grid; 65 was lengthened.
SAMPLED = [4, 12, 14, 18, 19, 24, 34, 59, 62, 65, 91, 107, 113, 115, 117, 128, 241, 251, 295, 317]
SAME = ("experiment", "config_hash", "seed", "data", "metric", "network", "status", "scores")


def sweep_config(folder: Path, *overrides: str) -> dict[str, Any]:
    fixed = [f"paths.output_dir={folder}", "callbacks.progress=null", "trainer.accelerator=cpu"]
    return checked("experiment=table1", *fixed, *overrides)


def one_by_one(pair: Pair, folder: Path) -> Pair:
    """Train both networks of a trial in single runs; returns their configs."""
    configs = deepcopy(pair)
    for config in configs:
        config["paths"]["output_dir"] = str(folder)
        train(OmegaConf.create(config))
    return configs


def record_of(config: dict[str, Any]) -> dict[str, Any]:
    record = read_record(run_folder(config))
    assert record is not None
    return record


def gap(stacked: dict[str, Any], single: dict[str, Any], name: str) -> float:
    """Return the largest difference between the weights of two runs."""
    paths = [run_folder(config) / "checkpoints" / name for config in (stacked, single)]
    one, other = (load_checkpoint(path)["state_dict"] for path in paths)
    assert one.keys() == other.keys()
    return max((one[key] - other[key]).abs().max().item() for key in one)


@pytest.mark.parametrize(
    ("trials", "options", "sizes"),
    [
        (SAMPLED, ["trainer.max_epochs=1"], [1] * 4 + [2] * 2 + [3] * 4),
        ([19, 117], ["model.normalizer=mean", "model.grid=index", "trainer.max_epochs=6"], [2]),
        ([19, 117], ["model.normalizer=sum", "model.grid=linspace", "trainer.max_epochs=6"], [2]),
    ],
)
def test_weights_equal_those_of_single_runs(
    tmp_path: Path, trials: list[int], options: list[str], sizes: list[int], device: torch.device
) -> None:
    config = sweep_config(tmp_path / "stacked", DOUBLE, "protocol=last", *options)
    pairs = [pair_of(config, draw(0, index)) for index in trials]
    stacks = list(group_trials(pairs, CPU))
    assert sorted(map(len, stacks)) == sizes
    for group in stacks:
        assert train_group(group, device) == len(group)
    for pair in pairs:
        for stacked, single in zip(pair, one_by_one(pair, tmp_path / "single"), strict=True):
            worst = gap(stacked, single, "last.ckpt")
            assert worst < 1e-11, (stacked["sweep"]["trial"], stacked["model"]["name"], worst)


def test_records_equal_those_of_single_runs(tmp_path: Path, device: torch.device) -> None:
    config = sweep_config(tmp_path / "stacked", DOUBLE, "protocol=holdout", "trainer.max_epochs=6")
    pairs = [pair_of(config, draw(0, index)) for index in (19, 117)]
    train_group(pairs, device)
    for pair in pairs:
        for stacked, single in zip(pair, one_by_one(pair, tmp_path / "single"), strict=True):
            folder, other = run_folder(stacked), run_folder(single)
            assert folder.parts[-3:] == other.parts[-3:]
            ours, theirs = record_of(stacked), record_of(single)
            assert ours.keys() == theirs.keys()
            assert {name: ours[name] for name in SAME} == {name: theirs[name] for name in SAME}
            assert list(ours["series"]) == list(theirs["series"])
            for name in ours["series"]:  # it was logged in float32
                assert ours["series"][name] == pytest.approx(theirs["series"][name], abs=1e-6)
            assert ours["focus"].keys() == theirs["focus"].keys()
            assert {**ours["config"], "paths": None} == {**theirs["config"], "paths": None}
            assert gap(stacked, single, "best.ckpt") < 1e-11
            assert evaluate(folder)["test/acc"] == ours["scores"]["holdout"]["value"]
            if stacked["model"]["name"] == "dense":
                assert not (folder / "focus.npz").exists()
                continue
            with np.load(folder / "focus.npz") as one, np.load(other / "focus.npz") as two:
                assert one.files == two.files
                for name in one.files:
                    if one[name].dtype.kind == "f":
                        np.testing.assert_allclose(one[name], two[name], rtol=1e-4, atol=1e-6)
                    else:
                        assert (one[name] == two[name]).all()


def test_small_last_batch_is_dropped_as_in_single_runs(tmp_path: Path) -> None:
    config = sweep_config(tmp_path / "stacked", DOUBLE, "protocol=last", "trainer.max_epochs=1")
    pair = pair_of(config, draw(0, 19))
    for run in pair:
        run["optim"]["batch_size"] = 34
    train_group([pair], CPU)
    for stacked, single in zip(pair, one_by_one(pair, tmp_path / "single"), strict=True):
        assert 1 < record_of(single)["data"]["train"] % 34 < 34 / 4
        assert gap(stacked, single, "last.ckpt") < 1e-11


def test_unused_noise_columns_cost_nothing(tmp_path: Path) -> None:
    [one, other] = (pair_of(sweep_config(tmp_path), draw(0, 19)) for _ in range(2))
    one.focused["data"] |= {"noise_position": "none", "noise": 400}
    other.focused["data"] |= {"noise_position": "none", "noise": 0}
    assert estimate_seconds([one]) == estimate_seconds([other])


def test_single_trial_has_the_folder_of_the_stacked_one(tmp_path: Path) -> None:
    pair = pair_of(sweep_config(tmp_path), draw(0, 317))
    for stacked, model in zip(pair, ("dense", "focus_s"), strict=True):
        alone = compose_config(
            "experiment=table1", "sweep.trial=317", f"model={model}", "size=full"
        )
        apply_trial(alone)
        assert run_folder(check_config(alone)).parts[-3:] == run_folder(stacked).parts[-3:]


def test_diverging_trial_fails_alone(tmp_path: Path, device: torch.device) -> None:
    config = sweep_config(tmp_path, "trainer.max_epochs=4")
    pairs = [pair_of(config, draw(0, index)) for index in (19, 117)]
    for run in pairs[0]:
        run["optim"]["lr"] = 1e30
    train_group(pairs, device)
    bad, good = record_of(pairs[0].dense), record_of(pairs[1].dense)
    assert bad["status"] == "failed"
    assert "try a smaller optim.lr" in bad["error"]
    assert all(np.isfinite(values).all() for values in bad["series"].values())
    assert good["status"] == "done"
    assert len(good["series"]["test/acc"]) == 4


@pytest.mark.parametrize("precision", ["32-true", "64-true"])
@pytest.mark.parametrize("trial", [19, 117, 128])
def test_stack_stays_within_its_memory_budget(
    trial: int, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count all live tensors while as many trials train as fit."""
    options = (f"trainer.precision={precision}", "protocol=last", "trainer.max_epochs=1")
    config = sweep_config(tmp_path, "sweep.stack_mb=12", *options)
    pairs = [pair_of(config, draw(0, trial)) for _ in range(64)]
    for index, pair in enumerate(pairs):
        for run in pair:
            run["sweep"]["trial"] = run["data"]["seed"] = index
    group, *_ = group_trials(pairs, CPU)
    peaks = []

    def measured(stack: Stack, train: Split, evaluated: dict[str, Split], config: Any) -> History:
        with PeakMemory() as peak:
            held = [*train, *(values for split in evaluated.values() for values in split)]
            for tensor in [*held, *(v for v in vars(stack).values() if isinstance(v, Tensor))]:
                peak.track(tensor)
            history = fit_stack(stack, train, evaluated, config)
        peaks.append(peak.peak)
        return history

    monkeypatch.setattr("focusing.experiments.stack_records.fit_stack", measured)
    train_group(group, CPU)
    [peak] = peaks
    assert peak <= 12 * 2**20
    inputs, neurons, samples, batch = _shape(group[0])
    itemsize = 4 if precision == "32-true" else 8
    classes = group[0].focused["data"]["classes"]
    estimate = len(group) * trial_bytes(inputs, neurons, classes, samples, batch, itemsize)
    assert peak <= estimate < 3 * peak  # the estimate is not far off


def test_too_large_trial_is_refused(tmp_path: Path) -> None:
    pairs = [pair_of(sweep_config(tmp_path, "sweep.stack_mb=1"), draw(0, 4))]
    with pytest.raises(UserError, match=r"^Trial 4 takes .* of cpu: sweep.stack_mb must be at lea"):
        list(group_trials(pairs, CPU))
