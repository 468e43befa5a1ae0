"""focusing train: force, output and errors. test_wheel.py checks the files of a run."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from benchmarks import loop
from tests.integration.commands import SMALL, TRAIN, record, run_dirs, run_here
from tests.integration.forked import run_forked

pytestmark = pytest.mark.slow
OPTIONS = [*SMALL, "model.dropout=[0.25]"]
SUBPROCESS = (
    "{_target_:torch.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler,"
    "entrypoint:touch,args:[touched],env:{},stdout:null,stderr:null,local_rank_id:0,"
    "numa_options:null}"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a working directory with a finished run."""
    folder = tmp_path_factory.mktemp("trained")
    done = run_forked(TRAIN, *OPTIONS, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def finished(trained: Path, tmp_path: Path) -> Path:
    """Copy that run into ``tmp_path``; returns its folder."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    [folder] = run_dirs(tmp_path)
    return folder


def sentence(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    [line] = done.stderr.splitlines()
    return line


def test_force_repeats_bit_for_bit(finished: Path, tmp_path: Path) -> None:
    first, stamp = record(finished), (finished / "result.json").stat().st_mtime_ns
    failed = run_here("train", *OPTIONS, "force=true", "trainer.accelerator=tpu", cwd=tmp_path)
    assert failed.returncode == 1
    assert record(finished) == first
    assert not finished.with_name(f".{finished.name}.failed").exists()
    assert run_here("train", *OPTIONS, "force=true", cwd=tmp_path).returncode == 0
    assert (finished / "result.json").stat().st_mtime_ns > stamp
    assert record(finished)["series"] == first["series"]
    assert run_dirs(tmp_path) == [finished]


def test_warnings_are_shown_once_and_failures_stop_no_other_job(
    tmp_path: Path,
) -> None:
    stuck = [f"callbacks.stuck.{option}" for option in ("window=2", "tolerance=9", "information=1")]
    options = ["experiment=stuck", *SMALL, *stuck]
    for jobs in ([], ["-m", "data.noise_position=top,right"]):
        done = run_here("train", *jobs, *options, cwd=tmp_path)
        assert done.returncode == len(jobs[:1]), done.stderr
        [warning] = [line for line in done.stderr.splitlines() if line.startswith("Warning")]
        assert "Stuck foci: 4 of 4 in hidden1" in warning
        assert ("data.noise_position=right" in warning) == bool(jobs)  # the name of the job
        assert "Stuck foci" not in done.stdout
        assert ("data.noise_position=top is not one of" in done.stderr) == bool(jobs)
        assert "Traceback" not in done.stderr
    assert len(run_dirs(tmp_path)) == 2
    assert not list(tmp_path.rglob("*.log"))


def test_multirun_is_quiet(tmp_path: Path) -> None:
    groups = ["experiment=learning_to_focus,sides", "variant=text,author"]
    options = ["debug=fast", "protocol=holdout", "data.n_samples=200"]
    done = run_here("train", "-m", *groups, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    progress, tables = done.stdout.split("4/4 jobs, 4 done\n")
    assert all(" jobs, " in line for line in progress.splitlines())
    assert tables.splitlines()[-1] == "Next: focusing report outputs"
    folders = run_dirs(tmp_path)
    assert len(folders) == 4
    for folder in folders:
        run = record(folder)
        assert run["data"]["val"] > 0
        assert None not in run["scores"].values()


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (f"+callbacks.x={SUBPROCESS}", "SubprocessHandler is refused"),
        ("+callbacks.x=3", "callbacks.x"),
        ("+logger.wandb.timeout=abc", "logger.wandb"),
        ("paths.output_dir=/proc/nowhere", "/proc/nowhere: No such file or directory"),
    ],
)
def test_wrong_option_is_one_line_before_anything_starts(
    tmp_path: Path, override: str, expected: str
) -> None:
    assert expected in sentence(run_here("train", *SMALL, override, cwd=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"foo: [", "own.yaml, line 1: "),
        (b"name: caf\xe9", "own.yaml is not UTF-8 text: see its byte 9."),
        (b"seed: 3", "experiment/own.yaml does not say that its options begin at the root"),
    ],
)
def test_own_configs_that_cannot_be_read(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "own.yaml").write_bytes(content)
    done = run_here("train", "--config-dir", ".", "experiment=own", cwd=tmp_path)
    assert expected in sentence(done)


def test_only_the_config_that_cannot_be_read_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "own.yaml").write_bytes(b"name: \x01")
    (tmp_path / "experiment" / "another.yaml").write_bytes(b"# caf\xe9")
    done = run_here("train", "--config-dir", ".", "experiment=own", cwd=tmp_path)
    assert 'own.yaml", position 6' in sentence(done)


def test_trust_target_allows_own_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "watching.py").write_text(
        "import pytorch_lightning as pl\n"
        "class Watch(pl.Callback):\n"
        "    def measurements(self, record): return {'measured': {'watch': {'seen': 7}}}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("focusing.instantiate._trusted", set())
    options = [*SMALL, "+callbacks.watch={_target_:watching.Watch}"]
    trusting = ["--trust-target", "watching.Watch"]
    done = run_here("train", *options, cwd=tmp_path)
    assert "--trust-target watching.Watch" in sentence(done)
    done = run_here("train", *options, *trusting, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [folder] = run_dirs(tmp_path)
    assert record(folder)["measured"]["watch"] == {"seen": 7}
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["model"]["hidden"] = config["callbacks"]["watch"]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    done = run_here("eval", *trusting, str(folder), cwd=tmp_path)
    assert "another _target_, which is refused" in sentence(done)


def test_loop_benchmark_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "loop.json"
    small = [replace(case, samples=case.samples // 20) for case in loop.CASES]
    monkeypatch.setattr(loop, "CASES", small)
    monkeypatch.setattr(sys, "argv", ["loop.py", "--rounds", "1", "--json", str(target)])
    loop.main()
    rows, shown = json.loads(target.read_text()), capsys.readouterr().out
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ours_ms_per_step"] / row["bare_ms_per_step"])
        assert f"{row['case']:26} {row['bare_ms_per_step']:9.3f}" in shown
    assert [row["allowed"] for row in rows] == [1.10, 1.80]
