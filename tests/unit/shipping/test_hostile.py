"""Files from strangers start no programs, and are rejected before they cost memory or time."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from focusing.errors import UserError
from focusing.messages import user_message
from focusing.shipping.card import KEY
from focusing.shipping.export import read_exported
from focusing.shipping.trained import evaluate
from tests.command_line import export, predict, prune

safetensors = pytest.importorskip("safetensors.torch", reason="needs the extra focusing[export]")


def write(path: Path, *, shape: tuple[int, ...] = (4,), classes: Any = "ab", **model: Any) -> Path:
    """Write a file with a card and hardly any weights."""
    sizes = {"inputs": list(shape), "outputs": 2, "hidden": [3]}
    model = {"_target_": "focusing.models.dense_mlp", **sizes, **model}
    card = {"data": "x", "shape": list(shape), "classes": list(classes), "model": model}
    text = json.dumps({**card, "schema": 1})
    safetensors.save_file({"weight": torch.zeros(1)}, path, metadata={KEY: text})
    return path


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hidden": [1] * 20_000}, "hidden has 20000 layers, the most are 1000"),
        ({"hidden": [10**12]}, "has .* bytes: too few for the network of 32.7 TiB"),
        ({"hidden": [10**7]}, "has .* bytes: too few for the network of 343 MiB"),
        ({"hidden": [4_000_000_000, 4_000_000_000]}, "cannot be read|too few"),
        ({"hidden": "abc"}, "hidden"),
        ({"shape": (10**9,)}, "a sample is too large"),
        ({"classes": ["a", "\x1b[2J"]}, "classes.1 has characters that cannot be printed"),
    ],
)
def test_cards(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        read_exported(write(tmp_path / "net.safetensors", **options))


HANDLER = "torch.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler"


def touch(file: Path) -> dict[str, Any]:
    """A config node that runs ``touch FILE`` when instantiated."""
    shown = {"stdout": None, "stderr": None, "local_rank_id": 0, "numa_options": None}
    return {"_target_": HANDLER, "entrypoint": "touch", "args": [str(file)], "env": {}, **shown}


PLACES: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "model": lambda config, evil: config.update(model={**evil, "name": "x"}),
    "model.hidden": lambda config, evil: config["model"].update(hidden=evil),
    "model.dropout": lambda config, evil: config["model"].update(dropout=[evil]),
    "data": lambda config, evil: config.update(data={**evil, "name": "synthetic"}),
    "data.seed": lambda config, evil: config["data"].update(seed=evil),
    "callbacks, logger": lambda config, evil: config.update(
        callbacks={"x": evil}, logger={"x": evil}
    ),
}
COMMANDS: dict[str, Callable[[Path], Any]] = {
    "eval": evaluate,
    "eval of other data": lambda run: evaluate(run, ["data.n_samples=50"]),
    "prune": lambda run: prune([str(run), "--threshold", "0.5", "--finetune", "1"]),
    "export": lambda run: export([str(run), "--format", "safetensors"]),
    "predict": lambda run: predict([str(run), str(run / "sample.csv")]),
}


@pytest.fixture
def run(focused: Path, tmp_path: Path) -> Path:
    """A copy of a run."""
    folder = tmp_path / "run"
    shutil.copytree(focused, folder)
    (folder / "sample.csv").write_text(",".join(["0"] * 40) + "\n")
    return folder


@pytest.mark.parametrize("place", PLACES)
def test_configs_of_runs_start_no_program(run: Path, place: str) -> None:
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    PLACES[place](config, touch(run.parent / "touched"))
    path.write_text(yaml.safe_dump(config))
    for command in COMMANDS.values():
        if place == "callbacks, logger":  # none of these commands builds them
            command(run)
        else:
            with pytest.raises(Exception) as caught:  # noqa: PT011 - Hydra has many
                command(run)
            assert "refused" in str(caught.value) or user_message(caught.value)
    assert {path.name for path in run.parent.iterdir()} == {"run"}


@pytest.mark.parametrize("place", ["model", "hidden"])
def test_cards_of_files_start_no_program(run: Path, place: str) -> None:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save

    export([str(run), "--format", "safetensors"])
    path = run / "model.safetensors"
    with safe_open(path, "np") as file:
        card = json.loads(file.metadata()["focusing"])
    evil = touch(run.parent / "touched")
    card["model"] = evil if place == "model" else {**card["model"], "hidden": [evil]}
    path.write_bytes(save(load_file(path), metadata={"focusing": json.dumps(card)}))
    with pytest.raises(UserError, match="refused"):
        read_exported(path)
    assert not (run.parent / "touched").exists()


def test_own_networks_need_trust(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("focusing.instantiate._trusted", set())
    monkeypatch.syspath_prepend(run.parent)
    monkeypatch.delitem(sys.modules, "own_net", raising=False)
    (run.parent / "own_net.py").write_text(
        "from focusing.models import MLP, focused_mlp\n"
        "def build(inputs, outputs, **options) -> MLP:\n"
        "    return focused_mlp(inputs, outputs, **options)\n"
    )
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["model"]["_target_"] = "own_net.build"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(UserError, match="--trust-target own_net.build"):
        prune([str(run), "--threshold", "0.5"])
    prune([str(run), "--threshold", "0.5", "--trust-target", "own_net.build"])
    assert "pruned.pt" in capsys.readouterr().out
