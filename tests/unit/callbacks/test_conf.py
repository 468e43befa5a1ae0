"""The YAML files list all options of callbacks and loggers with their defaults."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

import focusing.callbacks
from focusing.errors import UserError
from focusing.run import build_callbacks
from focusing.training.wandb_run import OPTIONS

CONF = Path(__file__).parents[3] / "conf"


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((CONF / name).read_text())
    return content


FILES = sorted(path.stem for path in (CONF / "callbacks").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES)
def test_options_of_callbacks(file: str) -> None:
    for options in read(f"callbacks/{file}.yaml").values():
        package, _, name = options.pop("_target_").rpartition(".")
        assert package == "focusing.callbacks"
        signature = inspect.signature(getattr(focusing.callbacks, name))
        defaults = {key: option.default for key, option in signature.parameters.items()}
        defaults.pop("console", None)  # for tests
        assert options == defaults


def test_every_callback_has_a_config() -> None:
    files = [read(f"callbacks/{file}.yaml") for file in FILES]
    callbacks = [callback for file in files for callback in file.values()]
    targets = {callback["_target_"].rpartition(".")[2] for callback in callbacks}
    added = {"SearchTrial", "CompiledNetwork"}  # by the sweeper, and by trainer.compile
    assert targets == set(focusing.callbacks.__all__) - added


def test_options_of_loggers() -> None:
    assert set(read("logger/wandb.yaml")["wandb"]) == set(OPTIONS)
    assert read("logger/csv.yaml") == {"csv": {}}
    assert read("logger/tensorboard.yaml") == {"tensorboard": {}}
    assert read("logger/many.yaml") == {"defaults": ["csv", "wandb", "tensorboard"]}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("DeadInputs", {option: 0}) for option in ("small", "neurons", "bins")),
        *(("Explanation", options) for options in ({"samples": 0}, {"method": "guess"})),
        ("Explanation", {"background": 1}),
        *(("FocusTrajectory", {option: -1}) for option in ("every",)),
        ("FocusTrajectory", {"movie": "x"}),
        ("Progress", {"enabled": "sometimes"}),
        *(("PruningCurve", {option: 0}) for option in ("points", "highest")),
        *(("StuckNeurons", {option: 0}) for option in ("window", "samples")),
        ("Timing", {"rounds": 0}),
        ("WindowTrajectory", {"samples": 1}),
        ("WindowTrajectory", {"early": -1}),
    ],
)
def test_impossible_options_are_refused(name: str, options: dict[str, Any]) -> None:
    [(option, value)] = options.items()
    mine = {"_target_": f"focusing.callbacks.{name}", **options}
    with pytest.raises(UserError, match=f"callbacks.mine: {option}='?{value}'? (must|is not)"):
        build_callbacks({"callbacks": {"mine": mine}, "trainer": {"compile": False}})
