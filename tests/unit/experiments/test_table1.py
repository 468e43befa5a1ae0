"""Stacked trials of Table 1: records, resuming, failures and refused options."""

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from focusing.compose import check_config, compose_config
from focusing.errors import UserError
from focusing.experiments import stack_records, table1
from focusing.experiments.stack_records import Pair, group_trials, train_group
from focusing.experiments.table1 import check_stackable, pair_of, run_stacked
from focusing.experiments.table1_trials import draw
from focusing.results.identity import run_folder
from focusing.results.store import claim, run_lock
from focusing.sweep.jobs import Job, OnDone, Outcome, RunsFailedError
from focusing.sweep.status import SweepStatus
from tests.forkserver import CONTEXT
from tests.processes import children, wait_for_end, wait_until
from tests.unit.experiments.composed import checked

CPU = torch.device("cpu")
Records = dict[tuple[int, str], dict[str, Any]]


@pytest.fixture(scope="module")
def base() -> DictConfig:
    return compose_config("experiment=table1", "trainer.accelerator=cpu", "trainer.max_epochs=2")


@pytest.fixture
def cfg(base: DictConfig, tmp_path: Path) -> DictConfig:
    config: DictConfig = OmegaConf.merge(base, {"paths": {"output_dir": str(tmp_path)}})  # type: ignore[assignment]
    return config


def records(folder: Path) -> Records:
    """Read the records below a folder, by trial and model."""
    by_trial = {}
    for path in folder.glob("table1/*/seed=*/result.json"):
        record = {**json.loads(path.read_text()), "written": path.stat().st_mtime_ns}
        config = record["config"]
        by_trial[config["sweep"]["trial"], config["model"]["name"]] = record
    return by_trial


def test_every_trial_is_recorded_once(
    cfg: DictConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg.sweep.trials, cfg.seed = 5, 3
    score = run_stacked(cfg)
    before = records(tmp_path)
    assert len(before) == 10
    assert all(record["seed"] == 3 for record in before.values())
    gaps = []
    for trial in range(5):
        dense, focused = before[trial, "dense"], before[trial, "focus_s"]
        assert dense["data"] == focused["data"]
        gaps.append(focused["scores"]["best_test"]["value"] - dense["scores"]["best_test"]["value"])
    assert score == pytest.approx(sum(gaps) / 5)
    shown = capsys.readouterr().out
    assert "Table 1, random trials" in shown  # the table of the report
    assert f"{100 * sum(gaps) / 5:+.2f}".replace("-", "−") in shown

    lost = run_folder(before[3, "focus_s"]["config"])
    (lost / "result.json").unlink()  # as if it had been killed
    assert run_stacked(cfg) == score
    after = records(tmp_path)
    assert after.keys() == before.keys()
    again = {key for key in after if after[key]["written"] != before[key]["written"]}
    assert again == {(3, "focus_s")}
    assert after[3, "focus_s"]["series"] == before[3, "focus_s"]["series"]


def test_pauses_of_a_sweep_are_not_times_of_trials(
    cfg: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_records, "running_seconds", iter((10.0, 14.0)).__next__)
    cfg.sweep.trials = 1
    run_stacked(cfg)
    assert {record["wall_seconds"] for record in records(tmp_path).values()} == {2.0}


def test_archived_trials_are_skipped(cfg: DictConfig, tmp_path: Path) -> None:
    cfg.sweep.trials = 2
    score = run_stacked(cfg)
    elsewhere = {
        "paths": {"output_dir": str(tmp_path / "new")},
        "sweep": {"archive": str(tmp_path)},
    }
    assert run_stacked(OmegaConf.merge(cfg, elsewhere)) == score  # type: ignore[arg-type]
    assert records(tmp_path / "new") == {}
    assert run_stacked(OmegaConf.merge(cfg, elsewhere, {"sweep": {"trials": 3}})) != score  # type: ignore[arg-type]
    assert {trial for trial, _ in records(tmp_path / "new")} == {2}


class FakeCluster:
    """Runs jobs in this process; the first one, and each one with trial 2, crashes."""

    gpus = 0

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg, self.jobs = cfg, list[str]()

    def run(self, jobs: Iterator[Job], status: SweepStatus, on_done: OnDone) -> None:
        for job in jobs:
            swept, [*only] = job.overrides[0], OmegaConf.create(job.overrides[1][11:])
            self.jobs.append(f"{swept} {only}")
            if len(self.jobs) == 1 or 2 in only:
                on_done(job, Outcome("failed", error="The job died.", crashed=True))
                continue
            run_stacked(OmegaConf.merge(self.cfg, {"sweep": {"only": only}}))  # type: ignore[arg-type]
            on_done(job, Outcome("done"))


def test_groups_train_on_a_cluster(
    cfg: DictConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hydra = {"mode": RunMode.MULTIRUN, "overrides": {"task": ["sweep.trials=5"]}}
    monkeypatch.setattr(HydraConfig.instance(), "cfg", OmegaConf.create({"hydra": hydra}))
    cfg.sweep.trials, cluster = 5, FakeCluster(cfg)
    with pytest.raises(RunsFailedError, match="2 of 10 runs failed"):
        run_stacked(cfg, cluster)  # type: ignore[arg-type]
    assert "sweep.trials=5 [2]" in cluster.jobs
    finished = records(tmp_path)
    assert len(finished) == 10
    assert {t for t, _ in finished if finished[t, "dense"]["error"] == "The job died."} == {2}
    assert {record["config"]["sweep"]["only"] for record in finished.values()} == {None}
    shown = capsys.readouterr()
    assert shown.out.count("Table 1, random trials") == 1  # jobs do not print it
    assert "5/5 trials, 4 done, 1 failed" in shown.err


def test_busy_trials_are_skipped(cfg: DictConfig, tmp_path: Path) -> None:
    pairs = [pair_of(check_config(cfg), draw(0, index)) for index in (19, 117)]
    with claim(run_folder(pairs[0].focused), resume=False):
        assert train_group(pairs, CPU) == 1
    assert records(tmp_path).keys() == {(117, "dense"), (117, "focus_s")}
    assert train_group(pairs, CPU) == 1
    assert len(records(tmp_path)) == 4
    before = records(tmp_path)
    pairs[0].dense["force"] = pairs[0].focused["force"] = True
    with run_lock(run_folder(pairs[0].focused)):
        assert train_group(pairs, CPU) == 0
    assert records(tmp_path) == before  # the earlier results are kept


def test_failures_are_reported_and_retried_on_request(
    cfg: DictConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(table1, "command_line_options", lambda cfg: {"optim.lr": 1e30})
    cfg.sweep.trials, cfg.optim.lr = 2, 1e30
    with pytest.raises(RunsFailedError, match="of 4 runs failed") as first:
        run_stacked(cfg)
    before = records(tmp_path)
    failed = {key: record for key, record in before.items() if record["status"] == "failed"}
    assert {
        (job.index, job.overrides[1].removeprefix("model=")): (outcome.error, outcome.earlier)
        for job, outcome in first.value.runs
    } == {key: (record["error"], False) for key, record in failed.items()}
    assert failed
    capsys.readouterr()
    with pytest.raises(RunsFailedError) as second:
        run_stacked(cfg)
    assert records(tmp_path) == before
    assert len(second.value.runs) == len(failed)
    assert all(outcome.earlier for _, outcome in second.value.runs)
    shown = capsys.readouterr().err
    assert "2/2 trials, 0 done, 2 failed" in shown
    assert shown.count("(in an earlier sweep)") == len(failed)
    cfg.sweep.retry_failed = True
    with pytest.raises(RunsFailedError):
        run_stacked(cfg)
    after = records(tmp_path)
    for key, record in before.items():
        assert (after[key]["written"] != record["written"]) == (record["status"] == "failed")


def test_impossible_trial_fails_alone(cfg: DictConfig, tmp_path: Path) -> None:
    config = check_config(cfg)
    fixed = {"data.informative": 4, "data.n_samples": 100, "data.noise": 0, "model.hidden": [4]}
    fixed |= {"data.noise_position": "left", "optim.batch_size": 10}
    for name, value in fixed.items():
        group, _, option = name.partition(".")
        config[group][option] = value
    # 6: 8 classes x 4 clusters do not fit into 4 columns.
    pairs = [pair_of(config, draw(0, index, fixed=fixed), fixed) for index in (0, 1, 6)]
    unreadable = run_folder(pairs[1].dense) / "result.json"
    unreadable.parent.mkdir(parents=True)
    unreadable.write_text("{")
    [stack] = group_trials(pairs, CPU)
    errors = table1.train_or_record_failures(stack, CPU)
    assert errors.keys() == {6}
    assert "n_clusters_per_class" in errors[6]
    assert unreadable.with_name("result.json.damaged").read_text() == "{"  # it is kept
    expected = {(trial, model): "done" for trial in (0, 1) for model in ("dense", "focus_s")}
    expected |= {(6, "dense"): "failed", (6, "focus_s"): "failed"}
    assert {key: record["status"] for key, record in records(tmp_path).items()} == expected
    assert records(tmp_path)[6, "dense"]["error"] == errors[6]


def test_groups_contain_every_trial_once_and_equal_shapes(cfg: DictConfig) -> None:
    config = check_config(cfg)
    pairs = [pair_of(config, draw(0, index)) for index in range(300)]
    stacks = list(group_trials(pairs, CPU))
    assert sorted(pair.trial for stack in stacks for pair in stack) == list(range(300))
    for stack in stacks:
        runs = [pair.dense for pair in stack]
        assert len({run["data"]["n_samples"] for run in runs}) == 1
        assert len({run["data"]["informative"] + run["data"]["noise"] for run in runs}) == 1
        assert len({(*run["model"]["hidden"], run["optim"]["batch_size"]) for run in runs}) == 1
    # Also for a cluster with GPUs from a machine without one.
    assert len(list(group_trials(pairs, torch.device("cuda")))) < len(stacks)


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
def test_unsupported_options_are_refused(override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_stackable(checked("experiment=table1", override))


def test_stack_supports_the_2018_neuron_but_no_other_data() -> None:
    check_stackable(checked("experiment=table1", "variant=author2018"))
    with pytest.raises(UserError, match="use data=synthetic"):
        check_stackable(checked("data=dna", "sweep.stacked=true"))


def sweep_in_two_processes(cfg: DictConfig) -> None:
    torch.set_num_threads(2)
    table1.MIN_POOL_SECONDS = 0
    run_stacked(cfg)


class Deadly:
    """Trains a group, but kills the process if it contains a certain trial."""

    def __init__(self, trial: int) -> None:
        self.trial, self.train_or_record_failures = trial, table1.train_or_record_failures

    def __call__(self, group: Sequence[Pair], device: torch.device) -> dict[int, str]:
        if self.trial in [pair.trial for pair in group]:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.train_or_record_failures(group, device)


def whole_trials(records: Records) -> Records:
    """Keep only trials with both records; the others train again."""
    both = {
        trial for trial, _ in records if {(trial, "dense"), (trial, "focus_s")} <= records.keys()
    }
    return {key: record for key, record in records.items() if key[0] in both}


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads the states of processes")
def test_killed_sweep_continues_and_dead_worker_fails_one_trial(
    cfg: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg.sweep.trials, cfg.trainer.max_epochs = 8, 20
    process = CONTEXT.Process(target=sweep_in_two_processes, args=(cfg,))
    process.start()
    assert process.pid is not None
    wait_until(lambda: whole_trials(records(tmp_path)), seconds=300)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.join()
    wait_for_end(workers)  # they die with it
    before = whole_trials(records(tmp_path))
    assert 2 <= len(before) < 16
    deadly = next(index for index in range(8) if (index, "dense") not in before)
    monkeypatch.setattr(table1, "MIN_POOL_SECONDS", 0)
    monkeypatch.setattr(table1, "train_or_record_failures", Deadly(deadly))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with pytest.raises(RunsFailedError, match="2 of 16 runs failed"):
        run_stacked(cfg)
    after = records(tmp_path)
    assert len(after) == 16
    assert {key: after[key] for key in before} == before
    failed = {key for key, record in after.items() if record["status"] == "failed"}
    assert failed == {(deadly, "dense"), (deadly, "focus_s")}  # not other trials of its group
    assert "is there enough memory?" in after[deadly, "focus_s"]["error"]
