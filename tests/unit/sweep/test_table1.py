"""All trials of Table 1 by one command: records, resuming, failures, refusals."""

import json
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from focusing.compose import check, config_dir, prepare_hydra
from focusing.errors import UserError
from focusing.results.identity import run_folder
from focusing.results.store import claim
from focusing.sweep.outcome import RunsFailedError
from focusing.sweep.table1 import workers as stack_workers
from focusing.sweep.table1.records import train_group
from focusing.sweep.table1.run import groups, pair_of, run_stacked
from focusing.sweep.table1.stackable import check_stackable
from focusing.sweep.table1.trials import draw
from tests.forkserver import CONTEXT

CPU = torch.device("cpu")


def composed(folder: Path, *overrides: str) -> DictConfig:
    prepare_hydra()
    fixed = [f"paths.output_dir={folder}", "trainer.accelerator=cpu", "trainer.max_epochs=2"]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return compose("train", ["experiment=table1", *fixed, *overrides])


def records(folder: Path) -> dict[tuple[int, str], dict[str, Any]]:
    """By trial and model."""
    found = {}
    for path in folder.glob("table1/*/seed=0/result.json"):
        record = json.loads(path.read_text())
        found[record["config"]["sweep"]["trial"], record["config"]["model"]["name"]] = {
            **record,
            "written": path.stat().st_mtime_ns,
        }
    return found


def test_a_sweep_records_both_networks_of_every_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    score = run_stacked(composed(tmp_path, "sweep.trials=5", "seed=3"))
    paths = sorted(tmp_path.glob("table1/*/seed=3/result.json"))
    found = [json.loads(path.read_text()) for path in paths]
    assert len(found) == 10
    gaps = []
    for trial in range(5):
        dense, focused = (
            next(
                each
                for each in found
                if (each["config"]["sweep"]["trial"], each["config"]["model"]["name"])
                == (trial, model)
            )
            for model in ("dense", "focus_s")
        )
        assert dense["data"] == focused["data"]
        gaps.append(focused["scores"]["paper"]["value"] - dense["scores"]["paper"]["value"])
    assert score == pytest.approx(sum(gaps) / 5)
    shown = capsys.readouterr().out
    assert "Not possible as drawn" in shown
    assert f"{100 * sum(gaps) / 5:+.2f}" in shown


def test_impossible_draws_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = next(s for s in range(999) if draw(s, 0).changed and draw(s, 0).n_samples < 1000)
    run_stacked(composed(tmp_path, "sweep.trials=1", f"seed={seed}"))
    assert "Not possible as drawn: 1 trials (1 x length 4 raised to 5)." in capsys.readouterr().out


def test_finished_trials_are_not_run_again(tmp_path: Path) -> None:
    cfg = composed(tmp_path, "sweep.trials=5")
    score = run_stacked(cfg)
    before = records(tmp_path)
    lost = run_folder(before[3, "focus_s"]["config"])
    (lost / "result.json").unlink()  # as if killed just before
    assert run_stacked(cfg) == score
    after = records(tmp_path)
    assert after.keys() == before.keys()
    again = {key for key in after if after[key]["written"] != before[key]["written"]}
    assert again == {(3, "focus_s")}
    assert after[3, "focus_s"]["series"] == before[3, "focus_s"]["series"]


def test_a_trial_that_another_process_has_is_left_to_it(tmp_path: Path) -> None:
    from focusing.compose import check

    config = check(composed(tmp_path))
    pairs = [pair_of(config, draw(0, index)) for index in (19, 117)]
    with claim(run_folder(pairs[0].focused), resume=False):
        assert train_group(pairs, CPU) == 1
    assert records(tmp_path).keys() == {(117, "dense"), (117, "focus_s")}
    assert train_group(pairs, CPU) == 1
    assert len(records(tmp_path)) == 4


def test_failures_are_told_and_retried_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"optim.lr": 1e30}
    monkeypatch.setattr("focusing.sweep.table1.run.options_given", lambda cfg: given)
    few = ("sweep.trials=2", "optim.lr=1e30")
    with pytest.raises(RunsFailedError, match="of 4 runs failed") as first:
        run_stacked(composed(tmp_path, *few))
    before = records(tmp_path)
    failed = {key: each for key, each in before.items() if each["status"] == "failed"}
    assert {
        (job.index, job.overrides[1].removeprefix("model=")): (outcome.error, outcome.earlier)
        for job, outcome in first.value.runs
    } == {key: (each["error"], False) for key, each in failed.items()}
    assert failed
    capsys.readouterr()
    with pytest.raises(RunsFailedError) as second:
        run_stacked(composed(tmp_path, *few))
    assert records(tmp_path) == before
    assert len(second.value.runs) == len(failed)
    assert all(outcome.earlier for _, outcome in second.value.runs)
    shown = capsys.readouterr().err
    assert "2/2 trials, 0 done, 2 failed" in shown
    assert shown.count("(in an earlier sweep)") == len(failed)
    with pytest.raises(RunsFailedError):
        run_stacked(composed(tmp_path, *few, "sweep.retry_failed=true"))
    after = records(tmp_path)
    for key, record in before.items():
        assert (after[key]["written"] != record["written"]) == (record["status"] == "failed")


def test_a_trial_that_cannot_be_trained_fails_alone(tmp_path: Path) -> None:
    from focusing.compose import check

    config = check(composed(tmp_path))
    given = {"data.informative": 4, "data.n_samples": 100, "data.noise": 0, "model.hidden": [4]}
    given |= {"data.noise_position": "left", "optim.batch_size": 10}
    for name, value in given.items():
        group, _, option = name.partition(".")
        config[group][option] = value
    # 6: 8 classes x 4 clusters do not fit into 4 columns.
    pairs = [pair_of(config, draw(0, index, given=given), given) for index in (0, 1, 6)]
    unreadable = run_folder(pairs[1].dense) / "result.json"
    unreadable.parent.mkdir(parents=True)
    unreadable.write_text("{")
    [together] = groups(pairs, CPU)
    errors = stack_workers.attempt(together, CPU)
    assert errors.keys() == {6}
    assert "n_clusters_per_class" in errors[6]
    # Somebody may want to look at it.
    assert unreadable.with_name("result.json.damaged").read_text() == "{"
    assert {key: each["status"] for key, each in records(tmp_path).items()} == {
        (0, "dense"): "done",
        (0, "focus_s"): "done",
        (1, "dense"): "done",
        (1, "focus_s"): "done",
        (6, "dense"): "failed",
        (6, "focus_s"): "failed",
    }
    assert records(tmp_path)[6, "dense"]["error"] == errors[6]


def test_the_command_line_wins_over_the_draw(tmp_path: Path) -> None:
    from focusing.compose import check

    config = check(composed(tmp_path, "model.hidden=7"))
    pair = pair_of(config, draw(0, 0), given={"model.hidden": [7]})
    assert pair.dense["model"]["hidden"] == pair.focused["model"]["hidden"] == [7]
    assert pair.dense["data"]["n_samples"] == draw(0, 0).n_samples


def test_groups_hold_every_trial_once_and_shapes_that_are_equal(tmp_path: Path) -> None:
    from focusing.compose import check

    config = check(composed(tmp_path))
    pairs = [pair_of(config, draw(0, index)) for index in range(300)]
    together = list(groups(pairs, CPU))
    assert sorted(p.focused["sweep"]["trial"] for g in together for p in g) == list(range(300))
    for group in together:
        shapes = {
            (
                pair.dense["data"]["n_samples"],
                pair.dense["data"]["informative"] + pair.dense["data"]["noise"],
                *pair.dense["model"]["hidden"],
                pair.dense["optim"]["batch_size"],
            )
            for pair in group
        }
        assert len(shapes) == 1
    assert len(list(groups(pairs, torch.device("cuda")))) < len(together)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optim=adam", "optim.name=Adam needs sweep.stacked=false"),
        ("optim.clip_value=1", "optim.clip_value=1.0 needs sweep.stacked=false"),
        ("model.input_dropout=0.1", "model.input_dropout=0.1 needs"),
        ("model.focus=triangle", "model.focus=triangle needs"),
        ("model.normalizer=none", "l2, sum and mean only"),
        ("model.hidden=[4,4]", "one layer only"),
        ("trainer.precision=bf16-mixed", "32-true or 64-true only"),
        ("callbacks.clip=null", "callbacks=default only"),
        ("logger=tensorboard", "logger.tensorboard needs sweep.stacked=false"),
        ("model=dense", "use model=focus_s, not dense"),
        ("optim.momentum=null", "a number only"),
        ("sweep.trials=0", "sweep.trials=0 must be at least 1"),
    ],
)
def test_what_a_stack_does_not_know_is_refused(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_stacked(composed(tmp_path, override))


def test_a_stack_knows_the_neuron_of_2018() -> None:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        check_stackable(check(compose("train", ["experiment=table1", "variant=author2018"])))


def test_other_data_is_refused(tmp_path: Path) -> None:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        cfg = compose("train", ["data=dna", "sweep.stacked=true", f"paths.output_dir={tmp_path}"])
    with pytest.raises(UserError, match="use data=synthetic"):
        run_stacked(cfg)


def whole_trials(folder: Path) -> dict[tuple[int, str], dict[str, Any]]:
    """Records of trials that have both; of others, both networks are trained again."""
    found = records(folder)
    return {
        (trial, name): record
        for (trial, name), record in found.items()
        if {(trial, "dense"), (trial, "focus_s")} <= found.keys()
    }


def killed_sweep(folder: Path) -> None:
    torch.set_num_threads(2)
    stack_workers.WORTHWHILE = 0
    run_stacked(composed(folder, "sweep.trials=8", "trainer.max_epochs=20"))


class Deadly:
    """Trains a group, unless it has a trial that kills the process."""

    def __init__(self, trial: int) -> None:
        self.trial = trial

    def __call__(self, group: stack_workers.Group, device: torch.device) -> stack_workers.Errors:
        if self.trial in map(stack_workers.number, group):
            os.kill(os.getpid(), signal.SIGKILL)
        return stack_workers.attempt(group, device)


def test_a_killed_sweep_goes_on_and_a_dead_worker_takes_its_group_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = CONTEXT.Process(target=killed_sweep, args=(tmp_path,))
    process.start()
    assert process.pid is not None
    deadline = time.monotonic() + 300
    while not whole_trials(tmp_path) and time.monotonic() < deadline:
        assert process.exitcode is None
        time.sleep(0.05)
    children = _children(process.pid)
    assert len(children) >= 2
    process.kill()
    process.join()
    while any(map(_lives, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_lives, children))  # they die with it
    before = whole_trials(tmp_path)
    assert 2 <= len(before) < 16
    deadly = next(index for index in range(8) if (index, "dense") not in before)
    monkeypatch.setattr(stack_workers, "WORTHWHILE", 0)
    monkeypatch.setattr(stack_workers, "attempt", Deadly(deadly))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    with pytest.raises(RunsFailedError, match="of 16 runs failed"):
        killed_sweep(tmp_path)
    after = records(tmp_path)
    assert len(after) == 16
    assert {key: after[key] for key in before} == before
    failed = {key for key, each in after.items() if each["status"] == "failed"}
    assert (deadly, "dense") in failed
    assert len(failed) < 16 - len(before)  # not the groups beside it
    assert "died twice" in after[deadly, "focus_s"]["error"]


def _children(pid: int) -> list[int]:
    """Processes that it has started, and those that these have."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(each.parent.name)] = int(each.read_text().rpartition(")")[2].split()[1])
    found: list[int] = []
    generation = [pid]
    while generation := [each for each, parent in parents.items() if parent in generation]:
        found += generation
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_are_not_started_for_seconds_of_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing, "get_context", None)  # would fail
    run_stacked(composed(tmp_path, "sweep.trials=2"))
    assert stack_workers.WORTHWHILE > 1
