"""A config may name our classes and torch's, and nothing that runs programs."""

import pytest
import torch

from focusing.data import DataSet
from focusing.errors import UserError
from focusing.instantiate import instantiate


def test_builds_what_is_ours_and_what_is_inside() -> None:
    data = instantiate({"_target_": "focusing.data.synthetic", "n_samples": 20})
    assert isinstance(data, DataSet)
    net = instantiate({"_target_": "torch.nn.Linear", "in_features": 2}, out_features=3)
    assert isinstance(net, torch.nn.Linear)
    group = instantiate(
        {
            "_target_": "torch.nn.ModuleDict",
            "modules": {"one": {"_target_": "torch.nn.ReLU"}, "two": {"_target_": "torch.nn.Tanh"}},
        }
    )
    assert isinstance(group["two"], torch.nn.Tanh)
    lists = instantiate(
        {"_target_": "torch.nn.ModuleList", "modules": [{"_target_": "torch.nn.ReLU"}]}
    )
    assert isinstance(lists[0], torch.nn.ReLU)


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.eval",
        "subprocess.Popen",
        "numpy.zeros",
        "focusing_evil.Thing",
        "torch.os.system",  # begins well, ends elsewhere
        "focusing.results.record.subprocess.Popen",
        "focusing.results.record.json.loads",
        "torch.hub.load",  # no class
        "torch.load",
        "torch.utils.cpp_extension.load",
    ],
)
def test_refuses_everything_else_with_a_sentence(target: str) -> None:
    with pytest.raises(UserError, match="refused: a config may only name|cannot be found"):
        instantiate({"_target_": target})


def test_refuses_what_is_hidden_inside() -> None:
    with pytest.raises(UserError, match="refused"):
        instantiate({"_target_": "torch.nn.ModuleList", "modules": [{"_target_": "os.getcwd"}]})


def test_says_what_an_object_does_not_take() -> None:
    with pytest.raises(UserError, match=r"torch\.nn\.ReLU: .*colour"):
        instantiate({"_target_": "torch.nn.ReLU", "colour": 1})
    options = {"in_features": 2, "out_features": 2, "focus": "x"}
    with pytest.raises(UserError, match="focus='x' is not one of gaussian"):
        instantiate({"_target_": "focusing.nn.FocusedLinear", **options})
    with pytest.raises(UserError, match="cannot be found"):
        instantiate({"_target_": "focusing.nn.Nothing"})
