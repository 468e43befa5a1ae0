"""python train.py: what it leaves, when it repeats itself, and how it fails."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from benchmarks import loop
from tests.integration.commands import FOCUSING, ROOT, SMALL, TRAIN, record, run, run_dirs, run_here
from tests.integration.forked import run_forked

pytestmark = pytest.mark.slow


def test_the_default_run_leaves_everything(tmp_path: Path) -> None:
    done = run(TRAIN, "trainer.max_epochs=4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("max_epochs: 4") == 1  # the config, once
    assert "accuracy (paper)" in done.stdout
    [folder] = run_dirs(tmp_path)
    assert folder.parts[-3] == "learning_to_focus"
    assert {each.name for each in folder.iterdir()} == {
        *("config.yaml", "result.json", "metrics.csv", "focus.npz", "checkpoints", "figures")
    }
    figures = {each.stem for each in (folder / "figures").glob("[!.]*")}
    assert figures == {"foci_hidden1", "trajectory_hidden1", "weights_hidden1", "losses"}
    found = record(folder)
    assert (found["schema"], found["status"], found["error"]) == (1, "done", None)
    assert found["config"] == yaml.safe_load((folder / "config.yaml").read_text())
    assert found["config_hash"] == folder.parts[-2]
    assert found["data"]["train"] + found["data"]["test"] == 2857
    assert found["data"]["informative"] == [20, 40]
    assert all(len(values) == 4 for values in found["series"].values())
    assert found["scores"]["holdout"] is None
    assert found["scores"]["paper"]["value"] == max(found["series"]["test/acc"])
    assert found["scores"]["last"] == {"value": found["series"]["test/acc"][-1], "epoch": 3}
    # 40 inputs, 4 neurons with foci and batch norm, 2 classes; connections: those within the foci.
    assert found["network"]["parameters"] == found["network"]["trained"] == 190
    assert 8 < found["network"]["connections"] == found["network"]["multiply_adds"] <= 168
    assert found["wall_seconds"] > 0
    assert found["steps_per_second"] > 0
    assert found["peak_memory_bytes"] > 2**20
    assert len((folder / "metrics.csv").read_text().splitlines()) == 5


def test_again_says_so_and_force_repeats_bit_for_bit(tmp_path: Path) -> None:
    options = [*SMALL, "model.dropout=[0.25]"]
    assert run_here("train", *options, cwd=tmp_path).returncode == 0
    [folder] = run_dirs(tmp_path)
    first, stamp = record(folder), (folder / "result.json").stat().st_mtime_ns
    again = run_here("train", *options, cwd=tmp_path)
    assert again.returncode == 0
    assert "Finished earlier" in again.stdout
    assert (folder / "result.json").stat().st_mtime_ns == stamp
    assert run_here("train", *options, "force=true", cwd=tmp_path).returncode == 0
    assert (folder / "result.json").stat().st_mtime_ns > stamp
    assert record(folder)["series"] == first["series"]
    assert run_dirs(tmp_path) == [folder]


@pytest.mark.parametrize("mode", [[], ["-m"]], ids=["one run", "multirun"])
def test_our_warnings_are_shown_once(tmp_path: Path, mode: list[str]) -> None:
    stuck = [
        "callbacks.stuck.window=2",
        "callbacks.stuck.tolerance=9",
        "callbacks.stuck.information=1",
    ]
    done = run_here("train", *mode, "experiment=stuck", *SMALL, *stuck, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("Warning: Stuck foci: 4 of 4 in hidden1")
    assert "Stuck foci" not in done.stdout
    assert not list(tmp_path.rglob("*.log"))


def test_multirun_is_quiet_and_has_a_record_per_job(tmp_path: Path) -> None:
    groups = [
        "experiment=learning_to_focus,sides",
        "variant=paper,author",
        "debug=fast",
        "protocol=holdout",
    ]
    done = run_here("train", "-m", *groups, "data.n_samples=200", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(" jobs, " in line for line in lines), done.stdout
    assert lines[-1].startswith("4/4 jobs, 4 done, best 0.")
    folders = run_dirs(tmp_path)
    assert len(folders) == 4
    for folder in folders:
        found = record(folder)
        assert found["data"]["val"] > 0
        assert None not in found["scores"].values()


def test_a_failing_job_does_not_stop_the_others(tmp_path: Path) -> None:
    jobs = ["-m", "data.noise_position=top,right", *SMALL]
    done = run_here("train", *jobs, cwd=tmp_path)
    assert done.returncode == 1
    assert "data.noise_position=top is not one of" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(run_dirs(tmp_path)) == 1


def test_every_optimizer_model_and_data_option_runs(tmp_path: Path) -> None:
    jobs = [
        "-m",
        "model=focus_s,focus_c,fixed_s",
        "optim=adam,rmsprop",
        "optim.l2=1e-4",
        "optim.sigma_l2=1e-4",
        "optim.clip_value=1",
        "optim.accumulate=2",
        "optim.decay_epochs=[1]",
        "optim.anneal_from=2",
        "optim.anneal_epochs=2",
        "data.noise_position=none",
    ]
    done = run_here("train", *jobs, *SMALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(run_dirs(tmp_path)) == 6


def sentence(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    [line] = done.stderr.splitlines()
    return line


def test_a_wrong_name_fails_before_anything_starts(tmp_path: Path) -> None:
    done = run_here("train", "model.sgima=0.1", cwd=tmp_path)
    assert sentence(done) == "Error: model.sgima is not an option, did you mean model.sigma?"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("callbacks.stuck._target_=os.system", "os.system is refused"),
        (
            "+callbacks.x={_target_:torch.distributed.elastic.multiprocessing.subprocess_handler."
            "SubprocessHandler,entrypoint:touch,args:[touched],env:{},stdout:null,stderr:null,"
            "local_rank_id:0,numa_options:null}",
            "SubprocessHandler is refused",
        ),
        ("paths.output_dir=/proc/nowhere", "/proc/nowhere: No such file or directory"),
    ],
)
def test_a_wrong_value_is_a_sentence(tmp_path: Path, override: str, expected: str) -> None:
    assert expected in sentence(run_here("train", *SMALL, override, cwd=tmp_path))
    assert not (tmp_path / "touched").exists()


def test_a_callback_of_ones_own_is_trusted_by_name(tmp_path: Path) -> None:
    (tmp_path / "watching.py").write_text(
        "import pytorch_lightning as pl\n"
        "class Watch(pl.Callback):\n"
        "    def measured(self): return {'watch': {'seen': 7}}\n"
    )
    path = f"{ROOT / 'src'}{os.pathsep}{tmp_path}"
    options = [*SMALL, "+callbacks.watch={_target_:watching.Watch}"]
    trusting = ["--trust-target", "watching.Watch"]
    done = run(TRAIN, *options, *trusting, cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    [folder] = run_dirs(tmp_path)
    assert record(folder)["measured"]["watch"] == {"seen": 7}
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["model"]["hidden"] = config["callbacks"]["watch"]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    done = run([*FOCUSING, "eval"], *trusting, str(folder), cwd=tmp_path, PYTHONPATH=path)
    assert "another _target_, which is refused" in sentence(done)
    done = run_here("train", *options, "seed=1", cwd=tmp_path)
    assert "--trust-target watching.Watch" in sentence(done)


def test_a_full_disk_is_a_sentence_and_earlier_results_are_intact(tmp_path: Path) -> None:
    assert run_here("train", *SMALL, cwd=tmp_path).returncode == 0
    [folder] = run_dirs(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    small_disk = [sys.executable, "-m", "tests.integration.small_disk_train"]
    done = run_forked(small_disk, *SMALL, "seed=1", cwd=tmp_path)
    assert "The disk is full" in sentence(done)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_loss_that_is_not_a_number_stops_the_run(tmp_path: Path) -> None:
    # Batch norm forgives much; without it a huge rate does not.
    options = [*SMALL, "model.batch_norm=false", "optim.lr=1e12"]
    done = run_here("train", *options, cwd=tmp_path)
    assert "try a smaller optim.lr" in sentence(done)
    [folder] = run_dirs(tmp_path)
    assert record(folder)["status"] == "failed"
    assert "after epoch" in record(folder)["error"]


def test_help_lists_groups_and_options(tmp_path: Path) -> None:
    done = run_here("train", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "model: cnn_dense, cnn_focus, dense, fasttext_dense" in done.stdout
    assert "protocol: holdout, last, paper" in done.stdout
    assert "sigma: 0.08" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_two_loops_may_be_compared_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "loop.json"
    small = [replace(each, samples=each.samples // 10) for each in loop.CASES]
    monkeypatch.setattr(loop, "CASES", small)
    monkeypatch.setattr(sys, "argv", ["loop.py", "--rounds", "1", "--json", str(target)])
    loop.main()
    rows, shown = json.loads(target.read_text()), capsys.readouterr().out
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ours_ms_per_step"] / row["bare_ms_per_step"])
        assert f"{row['case']:26} {row['bare_ms_per_step']:9.3f}" in shown
    assert [row["most"] for row in rows] == [1.10, 1.80]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_a_sentence(tmp_path: Path) -> None:
    locked = tmp_path / "outputs"
    locked.mkdir(mode=0o500)
    assert "Permission denied" in sentence(run(TRAIN, *SMALL, cwd=tmp_path))


def test_a_forced_run_that_cannot_begin_leaves_the_earlier_result(tmp_path: Path) -> None:
    first = run_here("train", *SMALL, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    [folder] = run_dirs(tmp_path)
    before = record(folder)
    again = run_here("train", *SMALL, "force=true", "trainer.accelerator=tpu", cwd=tmp_path)
    assert again.returncode == 1
    assert record(folder) == before
    assert not folder.with_name(f".{folder.name}.failed").exists()


@pytest.mark.parametrize(
    "override",
    ["callbacks.trajectory.every=abc", "+callbacks.x=3", "+logger.wandb.timeout=abc"],
)
def test_a_wrong_callback_or_logger_is_a_sentence_that_names_it(
    tmp_path: Path, override: str
) -> None:
    done = run_here("train", *SMALL, override, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    group, name = override.lstrip("+").partition("=")[0].split(".")[:2]
    assert f"{group}.{name}" in done.stderr
    assert not run_dirs(tmp_path)


def test_figures_that_a_kill_prevented_are_drawn_later(tmp_path: Path) -> None:
    options = [each for each in SMALL if not each.startswith("figures")]
    assert run_here("train", *options, "figures=false", cwd=tmp_path).returncode == 0
    [folder] = run_dirs(tmp_path)
    assert not (folder / "figures").exists()
    again = run_here("train", *options, "figures=true", cwd=tmp_path)
    assert "Finished earlier" in again.stdout
    assert (folder / "figures" / "losses.png").exists()
