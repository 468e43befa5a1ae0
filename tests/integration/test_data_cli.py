"""The data sets from the command line, on a machine without a network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import open_dict

from focusing.compose import prepare_hydra
from focusing.errors import UserError
from focusing.run import train
from tests.integration.forked import run_forked

ROOT = Path(__file__).parents[2]
FAST = ["debug=fast", "model.hidden=[8,8]", "callbacks=none", "data.limit_train=200"]


@pytest.fixture
def run(tmp_path: Path):
    (tmp_path / "data").mkdir()

    def run(*command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        env = {
            "FOCUSING_DATA_DIR": str(tmp_path / "data"),
            "FOCUSING_CACHE_DIR": str(tmp_path / "cache"),
            "https_proxy": "http://127.0.0.1:9",  # nobody answers there
            "COLUMNS": "300",
        }
        done = run_forked([sys.executable, *command], cwd=tmp_path, **env)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def record(tmp_path: Path) -> dict:
    (path,) = tmp_path.glob("outputs/*/*/seed=0/result.json")
    return json.loads(path.read_text())


def test_a_fresh_machine_trains_on_the_sample(run, tmp_path: Path) -> None:
    done = run(str(ROOT / "train.py"), "data=clt", "data.train=200", "data.test=100", *FAST)
    assert "Warning: 5000 digits in place of 70 000." in done.stderr
    found = record(tmp_path)
    assert found["data"]["source"] == "generated, sample-5k"
    assert found["config"]["data"]["on_missing"] == "sample"


def test_a_command_ends_in_a_sentence(run) -> None:
    error = run("-m", "focusing.cli", "data", "get", "dna", code=1).stderr
    assert error.startswith("Error: DNA splice junctions: dna.scale, dna.scale.t not found in ")
    assert error.count("\n") == 1


def test_get_tries_all(run) -> None:
    done = run("-m", "focusing.cli", "data", "get", "dna", "clt60", "imdb", code=1)
    *lines, last = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "DNA splice junctions",
        "Cluttered MNIST 60x60, the original file",
        "IMDB reviews",
    ]
    assert last == "Error: dna, clt60, imdb could not be had, see above."


@pytest.mark.parametrize("more", [["hydra.mode=MULTIRUN"], ["experiment=learning_to_focus"]])
def test_a_sweep_and_an_experiment_stop_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    prepare_hydra()
    overrides = ["data=mnist", f"paths.data_dir={tmp_path}", f"paths.output_dir={tmp_path}", *FAST]
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("train", [*overrides, *more], return_hydra_config=True)
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)  # is put back to what it was
    HydraConfig.instance().set_config(cfg)
    with open_dict(cfg):
        del cfg["hydra"]
    with pytest.raises(UserError, match="or run `focusing data get mnist` where there is a netw"):
        train(cfg)
    assert not list(tmp_path.glob("*/*/seed=0"))


def train_here(tmp_path: Path, *overrides: str) -> None:
    prepare_hydra()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        output = f"paths.output_dir={tmp_path / 'outputs'}"
        train(compose("train", ["data.fake=true", *FAST, output, *overrides]))


@pytest.mark.parametrize(
    "options",
    [
        ["data=synthetic", "protocol=holdout"],
        ["data=mnist", "data.pad=4"],
        ["data=cifar10", "data.split=kfold4", "data.fold=1"],
        ["data=lfw"],
        ["data=catsdogs", "data.size=16"],
        ["data=fsdd"],
        ["data=boston", "data.pad=5"],
        ["data=dna", "protocol=holdout"],
        ["data=reuters"],
    ],
    ids=lambda options: options[0],
)
def test_training_on_every_kind_of_data(tmp_path: Path, options: list[str]) -> None:
    train_here(tmp_path, *options)
    assert record(tmp_path)["data"]["source"] == "fake"


def test_training_on_data_that_stays_as_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = []
    for number, limit in enumerate((2**30, 100)):
        monkeypatch.setattr("focusing.data.dataset.LARGE", limit)
        train_here(tmp_path / str(number), "data=catsdogs", "data.size=16")
        losses.append(record(tmp_path / str(number))["series"]["test/loss"])
    assert losses[0] == losses[1]


def test_words_need_a_model_that_embeds_them(tmp_path: Path) -> None:
    (tmp_path / "imdb").mkdir()
    (tmp_path / "imdb" / "imdb.npz").write_bytes(b"is not read")
    here = ("data.fake=false", f"paths.data_dir={tmp_path}")
    with pytest.raises(UserError, match="data=imdb is made of words: .* model=fasttext_focus"):
        train_here(tmp_path, "data=imdb", *here)
    assert (tmp_path / "imdb" / "imdb.npz").exists()
