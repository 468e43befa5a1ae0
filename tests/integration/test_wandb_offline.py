"""W&B's client without a network: the contents of a run, and one run per job."""

import json
import socket
import subprocess
import sys
import textwrap
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.integration.commands import FOCUSING, run_dirs
from tests.integration.forked import run_forked

JOBS = """
    import logging
    import sys
    from pathlib import Path

    from focusing.callbacks import FocusTrajectory
    from focusing.errors import UserError
    from focusing.training.loggers import build_loggers, close_loggers
    from tests.unit.training.fitting import Raise, trained

    logging.basicConfig(level=logging.INFO)

    def job(folder, *callbacks, close=True, **options):
        folder.mkdir(parents=True, exist_ok=True)
        config = {"seed": 0, "model": {"name": "focus_s"}, "data": {"name": "mine"}}
        options = {"tags": ["a", "b"], "job_type": "paper", **options}
        loggers = build_loggers(
            {"csv": {}, "wandb": options}, folder, config=config, experiment="learning"
        )
        code = 1
        try:
            trajectory = FocusTrajectory(histograms=True)
            trained(folder, callbacks=[trajectory, *callbacks], loggers=loggers)
            code = 0
        except RuntimeError as error:
            print(error)
        finally:
            if close:
                close_loggers(loggers, code)

    out = Path(sys.argv[1])
"""


def run(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run jobs in a new process without a key and without the settings of the user."""
    ours = {"HOME": str(folder), "NETRC": str(folder / "netrc"), "MPLCONFIGDIR": str(folder)}
    path = folder / "jobs.py"
    path.write_text(textwrap.dedent(JOBS) + textwrap.dedent(script))
    done = run_forked([sys.executable, str(path)], str(folder), cwd=folder, **ours, **environment)
    assert done.returncode == 0, done.stderr
    return done


@cache
def records(run_folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Read what W&B wrote, by type, with its own command."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(run_folder)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    by_type: dict[str, list[dict[str, Any]]] = {}
    for line in text.splitlines():
        record = json.loads(line)
        by_type.setdefault(record["type"], []).append(record[record["type"]])
    return by_type


def offline(folder: Path) -> list[Path]:
    return sorted((folder / "wandb").glob("offline-run-*"))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("jobs")
    done = run(
        folder,
        """
        job(out / "a" / "seed=0")
        job(out / "b" / "seed=0", Raise(RuntimeError("broken"), epoch=1))
        job(out / "left open" / "seed=0", close=False)
        job(out / "c" / "seed=0")
        job(out / "b" / "seed=0")  # resumed
        job(out / "disabled", mode="disabled")
        try:
            job(out / "online", mode="online")
        except UserError as error:
            print("refused:", error)
        """,
    )
    return folder, done.stdout + done.stderr


def test_offline_run_contains_config_history_and_images(jobs: tuple[Path, str]) -> None:
    (folder,) = offline(jobs[0] / "a" / "seed=0")
    written = records(folder)
    opened = written["run"][0]
    config = opened["config"]["update"]
    assert config["seed"] == 0
    assert config["model"] == {"name": "focus_s"}
    assert opened["project"] == "focusing"
    assert opened["run_group"] == "learning"
    assert opened["job_type"] == "paper"
    assert opened["tags"] == ["data=mine", "model=focus_s", "a", "b"]
    assert opened["display_name"] == "focus_s · mine · seed 0"
    history = [row["item"] for row in written["history"]]
    losses = [item["train/loss"] for item in history if "train/loss" in item]
    assert len(losses) == 3
    assert sum("test/acc" in item for item in history) == 3
    assert any("focus/hidden1/mu._type" in item for item in history)
    assert written["exit"][0]["exit_code"] == 0


def test_command_logs_everything_and_says_how_to_send_it(tmp_path: Path) -> None:
    options = ["data.n_samples=100", "trainer.max_epochs=10", "figures=false"]
    options += ["logger=wandb", "logger.wandb.checkpoint=true"]
    here = {"HOME": str(tmp_path), "NETRC": str(tmp_path / "netrc")}
    done = run_forked([*FOCUSING, "train"], *options, cwd=tmp_path, **here)
    assert done.returncode == 0, done.stderr
    [run_dir] = run_dirs(tmp_path)
    assert done.stdout.splitlines()[-1].split(maxsplit=1) == [
        "send", f"focusing wandb push {run_dir}"
    ]  # fmt: skip
    (folder,) = offline(run_dir)
    written = records(folder)
    assert written["run"][0]["display_name"] == "focus_s · synthetic · seed 0"
    keys = Counter(key for row in written["history"] for key in row["item"])
    for statistic in ("mu_mean", "mu_std", "sigma_mean", "sigma_std"):
        assert keys[f"focus/hidden1/{statistic}"] == 11  # the start, and after each epoch
    assert keys["lr/weight"] == keys["lr/mu"] == keys["lr/sigma"] == 11
    assert len(list(folder.glob("files/media/images/focus/hidden1*.png"))) == 11
    assert any("test/confusion_matrix" in key for key in keys)
    assert any(artifact["name"].startswith("checkpoint-") for artifact in written["artifact"])


def test_image_of_the_foci_is_not_black(jobs: tuple[Path, str]) -> None:
    import numpy as np
    from PIL import Image

    (folder,) = offline(jobs[0] / "a" / "seed=0")
    paths = list(folder.glob("files/media/images/focus/hidden*.png"))
    assert paths
    for path in paths:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
        assert pixels.mean() > 200
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


def test_one_run_per_job_even_after_failures(jobs: tuple[Path, str]) -> None:
    codes = {}
    for name in ("a", "b", "left open", "c"):
        folders = offline(jobs[0] / name / "seed=0")
        codes[name] = [records(folder)["exit"][0]["exit_code"] for folder in folders]
    assert codes == {"a": [0], "b": [1, 0], "left open": [1], "c": [0]}
    assert "was left open by an earlier job: closed as failed" in jobs[1]


def test_resumed_job_continues_its_run(jobs: tuple[Path, str]) -> None:
    folder = jobs[0] / "b" / "seed=0"
    ids = {records(path)["run"][0]["run_id"] for path in offline(folder)}
    assert ids == {(folder / "wandb" / "run_id").read_text()}
    others = {(path / "wandb" / "run_id").read_text() for path in jobs[0].glob("*/seed=0")}
    assert len(others) == 4


def test_silent_server_does_not_block_the_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections, never answers
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        script = 'job(out / "a", timeout=2)\njob(out / "b", timeout=2)'
        done = run(tmp_path, script, WANDB_BASE_URL=url, WANDB_API_KEY="0" * 40)
    assert done.stderr.count("W&B did not answer") == 1  # not again by the second job
    for name in ("a", "b"):
        (folder,) = offline(tmp_path / name)
        assert records(folder)["exit"][0]["exit_code"] == 0


def test_modes_without_a_key(jobs: tuple[Path, str]) -> None:
    folder, output = jobs
    assert output.count("W&B: no API key (wandb login), so runs are kept") == 1
    assert "focusing wandb push" in output
    assert offline(folder / "disabled") == []
    assert (folder / "disabled" / "metrics.csv").exists()
    assert "refused: W&B: No API key configured" in output
