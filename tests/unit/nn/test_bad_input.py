"""A wrong argument: one sentence that names it, its value, and what is allowed."""

import math
import re
from typing import Any

import pytest
import torch

from focusing import FocusedLinear

NAN = math.nan
CASES: list[tuple[dict[str, Any], str, str]] = [  # arguments, what is named, what is allowed
    ({"sigma": 0.0}, "sigma has values from 0 to 0", "greater than 0"),
    ({"sigma": -0.1}, "sigma has values from -0.1", "greater than 0"),
    ({"sigma": NAN}, "sigma has values from nan", "finite"),
    ({"sigma": math.inf}, "sigma has values from inf", "finite"),
    ({"sigma": torch.tensor([0.1, 0.0, 0.1])}, "sigma has values from 0 to 0.1", "greater than 0"),
    ({"sigma": torch.tensor([0.1, NAN, 0.1])}, "sigma has values from nan", "finite"),
    ({"sigma": torch.full((3, 2), -0.5), "topology": (2, 3)}, "-0.5", "greater than 0"),
    ({"sigma": (0.0, 0.5)}, "sigma=(0.0, 0.5)", "0 < low <= high"),
    ({"sigma": (0.3, 0.1)}, "sigma=(0.3, 0.1)", "0 < low <= high"),
    ({"sigma": (0.1, NAN)}, "sigma=(0.1, nan)", "0 < low <= high"),
    ({"sigma": (0.1, 0.2, 0.3)}, "sigma=(0.1, 0.2, 0.3)", "range (low, high)"),
    ({"sigma": "wide"}, "sigma='wide'", "a number, a range"),
    ({"sigma": None}, "sigma=None", "a number, a range"),
    ({"sigma": torch.ones(5)}, "sigma has shape (5,)", "(3, 1)"),
    ({"mu": 1.5}, "mu has values from 1.5 to 1.5", "mu_range=(0.0, 1.0)"),
    ({"mu": -0.1}, "mu has values from -0.1", "mu_range=(0.0, 1.0)"),
    ({"mu": NAN}, "mu has values from nan", "mu_range=(0.0, 1.0)"),
    ({"mu": torch.tensor([0.1, NAN, 0.2])}, "mu has values from nan", "mu_range=(0.0, 1.0)"),
    ({"mu": torch.tensor([0.1, 0.2, 1.1])}, "0.1 to 1.1", "mu_range=(0.0, 1.0)"),
    ({"mu": 0.1, "mu_range": (0.2, 0.8)}, "0.1 to 0.1", "mu_range=(0.2, 0.8)"),
    ({"mu": "middle"}, "mu='middle'", "spread"),
    ({"mu": None}, "mu=None", "a number or a tensor"),
    ({"mu": torch.rand(2, 2)}, "mu has shape (2, 2)", "(3, 1)"),
    ({"focus": "gauss"}, "focus='gauss'", "gaussian, negated_gaussian"),
    ({"focus": None}, "focus=None", "gaussian"),
    ({"init": "xavier"}, "init='xavier'", "focus_glorot, glorot, he, per_connection"),
    ({"normalizer": "max"}, "normalizer='max'", "l2, sum, mean, none"),
    ({"grid": "i/m"}, "grid='i/m'", "linspace, index"),
    ({"grid": "index", "topology": torch.rand(6)}, "grid='index'", "leave it out"),
    ({"normalizer": None}, "normalizer=None", "l2, sum, mean, none"),
    ({"backend": "cuda"}, "backend='cuda'", "auto, reference, torch, numba, numba_banded"),
    ({"sigma_range": (0.0, 1.0)}, "sigma_range=(0.0, 1.0)", "0 < low <= high"),
    ({"sigma_range": (0.5, 0.1)}, "sigma_range=(0.5, 0.1)", "0 < low <= high"),
    ({"sigma_range": (NAN, 1.0)}, "sigma_range=(nan, 1.0)", "0 < low <= high"),
    ({"sigma_range": (0.1,)}, "sigma_range=(0.1,)", "0 < low <= high"),
    ({"sigma_range": 0.1}, "sigma_range=0.1", "0 < low <= high"),
    ({"mu_range": (1.0, 0.0)}, "mu_range=(1.0, 0.0)", "low <= high"),
    ({"mu_range": (0.0, NAN)}, "mu_range=(0.0, nan)", "low <= high"),
    ({"mu_range": (0.0, 0.5, 1.0)}, "mu_range=(0.0, 0.5, 1.0)", "low <= high"),
    ({"mu_range": None}, "mu_range=None", "low <= high"),
    ({"cutoff": 0.0}, "cutoff=0.0", "between 0 and 1"),
    ({"cutoff": 1.0}, "cutoff=1.0", "between 0 and 1"),
    ({"cutoff": NAN}, "cutoff=nan", "between 0 and 1"),
    ({"topology": (2, 2)}, "topology=(2, 2)", "in_features=6"),
    ({"in_features": 0}, "in_features=0", "positive integer"),
    ({"in_features": 6.0}, "in_features=6.0", "positive integer"),
    ({"out_features": -3}, "out_features=-3", "positive integer"),
    ({"out_features": True}, "out_features=True", "positive integer"),
    ({"out_features": "3"}, "out_features='3'", "positive integer"),
]


def assert_is_one_sentence(text: str) -> None:
    assert text.endswith(".")
    assert ". " not in text
    assert "\n" not in text


@pytest.mark.parametrize(("arguments", "named", "allowed"), CASES, ids=[c[1] for c in CASES])
def test_the_constructor_refuses(arguments: dict[str, Any], named: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)) as error:
        FocusedLinear(**{"in_features": 6, "out_features": 3, **arguments})
    text = str(error.value)
    assert allowed in text
    assert_is_one_sentence(text)


@pytest.mark.parametrize("threshold", [-0.1, NAN])
def test_prune_refuses(threshold: float) -> None:
    layer = FocusedLinear(6, 3)
    with pytest.raises(ValueError, match="^threshold=.* must be 0 or greater") as error:
        layer.prune(threshold)
    assert_is_one_sentence(str(error.value))
    assert (layer.phi() != 0).all()


@pytest.mark.parametrize("p", [0, 3, 1.5])
def test_regularization_refuses(p: float) -> None:
    with pytest.raises(ValueError, match="^p=.* must be 1 or 2") as error:
        FocusedLinear(6, 3).regularization(p)
    assert_is_one_sentence(str(error.value))


def test_a_bound_is_allowed() -> None:
    """What is just inside must not be refused."""
    layer = FocusedLinear(6, 3, mu=torch.tensor([0.0, 0.8, 1.0]), sigma=(0.1, 0.1))
    assert (layer.sigma == layer.sigma[0]).all()
    FocusedLinear(6, 3, mu=torch.tensor([0.1, 0.2, 0.8]), mu_range=(0.1, 0.8))
    FocusedLinear(6, 3, mu=0.5, mu_range=(0.5, 0.5), sigma_range=(0.1, 0.1)).constrain_()
    FocusedLinear(1, 1)


@pytest.mark.parametrize("backend", ["reference", "torch", "numba", "numba_banded"])
@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 4), (2, 6, 1), ()])
def test_an_input_of_the_wrong_size_is_refused(shape: tuple[int, ...], backend: str) -> None:
    layer = FocusedLinear(6, 3, backend=backend)
    with pytest.raises((RuntimeError, IndexError)):
        layer(torch.zeros(shape))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("backend", ["reference", "torch", "numba", "numba_banded"])
def test_an_input_of_another_dtype_is_refused_as_by_linear(backend: str, bias: bool) -> None:
    layer = FocusedLinear(6, 3, bias, backend=backend)
    for dtype in (torch.float64, torch.bfloat16, torch.int64):
        with pytest.raises(RuntimeError):
            layer(torch.zeros(2, 6, dtype=dtype))
