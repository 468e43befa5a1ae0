"""Schemas that are derived from signatures."""

import ast
import dataclasses
import inspect
import pickle
import subprocess
import sys
import typing
from importlib import import_module
from typing import Any

import pytest
from omegaconf import OmegaConf

from focusing import config
from focusing.config import RUNTIME_ARGUMENTS, SCHEMA_TARGETS, group_schemas

EVERY = [(group, name) for group, targets in SCHEMA_TARGETS.items() for name in targets]


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_schema_has_the_parameters_of_its_target(group: str, name: str) -> None:
    module, _, attribute = SCHEMA_TARGETS[group][name].rpartition(".")
    parameters = inspect.signature(getattr(import_module(module), attribute)).parameters
    expected = {key: p.default for key, p in parameters.items() if key not in RUNTIME_ARGUMENTS}
    if "mu" not in expected:
        expected.pop("focus", None)  # an option of the focused layer, which is absent here
    if group == "model":
        expected["dynamic"] = None  # the config group dynamic, for any network
    schema = group_schemas()[group][name]
    assert schema._target_ == SCHEMA_TARGETS[group][name]  # type: ignore[attr-defined]
    values = OmegaConf.structured(schema)
    options = [field.name for field in dataclasses.fields(schema)]
    assert sorted(options) == sorted(["_target_", "name", *expected])
    for option, default in expected.items():
        if default is inspect.Parameter.empty:
            assert OmegaConf.is_missing(values, option)
        elif option not in ("augment", "speakers"):  # a dataclass, and a named constant
            assert values[option] == (list(default) if isinstance(default, tuple) else default)


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_numbers_have_the_type_of_their_default(group: str, name: str) -> None:
    """OmegaConf uses it to convert 1 to 1.0, which affects the hash of a config."""
    schema = group_schemas()[group][name]
    types = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        if isinstance(field.default, bool | int | float) and field.name not in ("mu", "sigma"):
            assert types[field.name] in (type(field.default), type(field.default) | None)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("int", int),
        ("float | None", float | None),
        ("Sequence[float]", list[float]),
        ("tuple[float, float]", list[float]),
        ("str | Path | None", str | None),
        ("Annotated[int, Ge(1)] | None", int | None),
        ("Literal['a', 'b']", str),
        ("Literal['a', 1]", Any),
        ("int | Sequence[int]", Any),
        ("Mu", Any),
    ],
)
def test_annotations_become_types_of_omegaconf(annotation: str, expected: Any) -> None:
    assert config._config_type(ast.parse(annotation, mode="eval").body) == expected


def test_derived_schemas_can_be_unpickled_in_another_process() -> None:
    sent = OmegaConf.structured(group_schemas()["data"]["mnist"](name="mnist", split="random"))
    code = (
        "import pickle, sys, focusing.instantiate; from omegaconf import OmegaConf\n"
        "data = pickle.load(sys.stdin.buffer); print(data.split, OmegaConf.get_type(data))\n"
        "sys.exit('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=pickle.dumps(sent), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "random <class 'focusing.config.MnistData'>"
    with pytest.raises(AttributeError, match="has no attribute 'NoData'"):
        _ = config.NoData
