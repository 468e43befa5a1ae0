"""A run folder or a file of somebody else runs no programs, whatever its config names."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from focusing.compose import explain
from focusing.errors import UserError
from focusing.shipping.export import read_exported
from focusing.shipping.trained import evaluate
from tests.command_line import export, predict, prune

HANDLER = "torch.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler"


def touch(file: Path) -> dict[str, Any]:
    """A node that runs ``touch FILE`` if it is built."""
    shown = {"stdout": None, "stderr": None, "local_rank_id": 0, "numa_options": None}
    return {"_target_": HANDLER, "entrypoint": "touch", "args": [str(file)], "env": {}, **shown}


def truncate(file: Path) -> dict[str, Any]:
    return {"_target_": "torch.serialization._open_file", "name": str(file), "mode": "w"}


PLACES: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "model": lambda config, evil: config.update(model={**evil, "name": "x"}),
    "model.hidden": lambda config, evil: config["model"].update(hidden=evil),
    "model.dropout": lambda config, evil: config["model"].update(dropout=[evil]),
    "data": lambda config, evil: config.update(data={**evil, "name": "synthetic"}),
    "data.seed": lambda config, evil: config["data"].update(seed=evil),
    "callbacks": lambda config, evil: config["callbacks"].update(x=evil),
    "logger": lambda config, evil: config["logger"].update(x=evil),
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
    """A copy of a run, beside a file that must not change."""
    folder = tmp_path / "run"
    shutil.copytree(focused, folder)
    (folder / "sample.csv").write_text(",".join(["0"] * 40) + "\n")
    (tmp_path / "victim").write_text("precious")
    return folder


@pytest.mark.parametrize("node", [touch, truncate])
@pytest.mark.parametrize("place", PLACES)
def test_no_config_of_a_run_starts_a_program(
    run: Path, place: str, node: Callable[[Path], dict[str, Any]]
) -> None:
    pytest.importorskip("safetensors")
    file = run.parent / ("touched" if node is touch else "victim")
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    PLACES[place](config, node(file))
    path.write_text(yaml.safe_dump(config))
    for command in COMMANDS.values():
        if place in ("callbacks", "logger"):  # which none of these commands builds
            command(run)
        else:
            with pytest.raises(Exception) as caught:  # noqa: PT011 - Hydra has many
                command(run)
            assert "refused" in str(caught.value) or explain(caught.value)
    assert {each.name for each in run.parent.iterdir()} == {"run", "victim"}
    assert (run.parent / "victim").read_text() == "precious"


@pytest.mark.parametrize("place", ["model", "hidden"])
def test_no_card_of_a_file_starts_a_program(run: Path, place: str) -> None:
    numpy_side = pytest.importorskip("safetensors.numpy")
    safetensors = pytest.importorskip("safetensors")
    export([str(run), "--format", "safetensors"])
    path = run / "model.safetensors"
    with safetensors.safe_open(path, "np") as file:
        card = json.loads(file.metadata()["focusing"])
    evil = touch(run.parent / "touched")
    card["model"] = evil if place == "model" else {**card["model"], "hidden": [evil]}
    path.write_bytes(
        numpy_side.save(numpy_side.load_file(path), metadata={"focusing": json.dumps(card)})
    )
    with pytest.raises(UserError, match="refused"):
        read_exported(path)
    assert not (run.parent / "touched").exists()


def test_a_network_of_ones_own_needs_trust(
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
