"""The YAML files name every option of callbacks and loggers, with the default of the class."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

import focusing.callbacks
from focusing.training.wandb_run import OPTIONS

CONF = Path(__file__).parents[3] / "conf"


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CONF / name).read_text())
    return found


FILES = sorted(path.stem for path in (CONF / "callbacks").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES)
def test_callbacks(file: str) -> None:
    for options in read(f"callbacks/{file}.yaml").values():
        package, _, name = options.pop("_target_").rpartition(".")
        assert package == "focusing.callbacks"
        signature = inspect.signature(getattr(focusing.callbacks, name))
        defaults = {key: each.default for key, each in signature.parameters.items()}
        defaults.pop("console", None)  # for tests
        assert options == defaults


def test_every_callback_is_there() -> None:
    files = [read(f"callbacks/{file}.yaml") for file in FILES]
    targets = {each["_target_"].rpartition(".")[2] for file in files for each in file.values()}
    searches = {"SearchTrial"}  # belongs to the sweeper that adds it
    assert targets == set(focusing.callbacks.__all__) - searches


def test_loggers() -> None:
    assert tuple(read("logger/wandb.yaml")["wandb"]) == OPTIONS
    assert read("logger/csv.yaml") == {"csv": {}}
    assert read("logger/tensorboard.yaml") == {"tensorboard": {}}
    assert read("logger/many.yaml") == {"defaults": ["csv", "wandb", "tensorboard"]}
