"""The data sets from the command line, on a machine without a network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAST = ["debug=fast", "model.hidden=[8]", "callbacks=none", "data.limit_train=200"]


@pytest.fixture
def run(tmp_path: Path):
    (tmp_path / "data").mkdir()

    def run(*command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "FOCUSING_DATA_DIR": str(tmp_path / "data"),
            "FOCUSING_CACHE_DIR": str(tmp_path / "cache"),
            "https_proxy": "http://127.0.0.1:9",  # nobody answers there
            "COLUMNS": "300",
        }
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def record(tmp_path: Path) -> dict:
    (path,) = tmp_path.glob("outputs/*/*/seed=0/result.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize(("name", "source"), [("mnist", "sample-5k"), ("clt", "sample-5k")])
def test_a_fresh_machine_trains_on_the_sample(run, tmp_path: Path, name: str, source: str) -> None:
    done = run(str(ROOT / "train.py"), f"data={name}", *FAST)
    assert "Warning: 5000 digits in place of 70 000." in done.stderr
    found = record(tmp_path)
    assert found["data"]["source"].endswith(source)
    assert found["config"]["data"]["on_missing"] == "sample"


def test_a_sweep_and_an_experiment_stop_instead(run, tmp_path: Path) -> None:
    command = [str(ROOT / "train.py"), "data=mnist", *FAST]
    done = run(*command, "-m", code=1)
    assert "MNIST digits: train-images-idx3-ubyte.gz" in done.stdout + done.stderr
    (tmp_path / "conf/experiment").mkdir(parents=True)
    (tmp_path / "conf/experiment/mine.yaml").write_text("# @package _global_\nname: mine\n")
    done = run(*command, "--config-dir", "conf", "experiment=mine", code=1)
    assert "or run `focusing data get mnist` where there is a network" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("outputs/*/*/seed=0"))


def test_the_data_commands(run, tmp_path: Path) -> None:
    cli = ["-m", "focusing.cli", "data"]
    assert "focusing data get cifar10" in run(*cli, "list").stdout
    error = run(*cli, "get", "dna", code=1).stderr
    assert error.startswith("Error: DNA splice junctions: dna.scale, dna.scale.t not found in ")
    assert error.count("\n") == 1
    assert run(*cli, "show", "fsdd", "data.fake=true").stdout == "outputs/data/fsdd.png\n"
    assert "list, get, check and show" in run(*cli, "draw", code=1).stderr


@pytest.mark.parametrize("data", ["lfw", "boston", "catsdogs"])
def test_training_with_changed_images_and_values(run, tmp_path: Path, data: str) -> None:
    options = ["data.size=16"] if data == "catsdogs" else []
    run(str(ROOT / "train.py"), f"data={data}", "data.fake=true", *FAST, *options)
    assert record(tmp_path)["data"]["source"] == "fake"


def test_words_need_a_model_that_embeds_them(run) -> None:
    done = run(str(ROOT / "train.py"), "data=imdb", "data.fake=true", *FAST, code=1)
    assert done.stderr.endswith("data=imdb is made of tokens: use a model that embeds them.\n")
