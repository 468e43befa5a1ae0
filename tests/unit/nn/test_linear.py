"""FocusedLinear: signature, foci, pruning, folding, and error messages."""

import inspect
import io
import math
import re
from typing import Any

import pytest
import torch
from torch import nn

from focusing import FocusedLinear
from tests.unit.nn.oracle import BACKENDS, FOCI, assert_same


def test_signature_begins_as_that_of_linear_and_is_the_documented_one() -> None:
    parameters = inspect.signature(FocusedLinear).parameters
    plain = inspect.signature(nn.Linear).parameters
    assert [*parameters][:3] == [*plain][:3] == ["in_features", "out_features", "bias"]
    options = ("focus", "mu", "sigma", "init", "sigma_range", "mu_range", "normalizer", "cutoff")
    defaults = ("gaussian", "spread", 0.025, "focus_glorot", (0.01, 1.0), (0.0, 1.0), "l2", 1e-7)
    assert tuple(parameters[name].default for name in options) == defaults


@pytest.mark.parametrize("bias", [True, False])
def test_weight_and_bias_are_named_and_shaped_as_in_linear(bias: bool) -> None:
    focused, plain = FocusedLinear(6, 4, bias), nn.Linear(6, 4, bias)
    missing, unexpected = focused.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == (["mu", "sigma"], [])
    assert torch.equal(focused.weight, plain.weight)
    assert (focused.bias is None) == (plain.bias is None)


@pytest.mark.parametrize(("topology", "shape"), [(None, (4,)), ((2, 3), (4, 2))])
def test_foci_are_views_and_vectors_on_a_line(topology: Any, shape: tuple[int, ...]) -> None:
    layer = FocusedLinear(6, 4, topology=topology)
    assert layer.foci.mu.shape == layer.foci.sigma.shape == shape
    with torch.no_grad():
        layer.foci.mu[2] = 0.125
        layer.foci.sigma[3] = 0.75
    assert (layer.mu[2] == 0.125).all()
    assert (layer.sigma[3] == 0.75).all()
    layer.foci.sigma.sum().backward()
    assert (layer.sigma.grad == 1).all()


def test_constrain_clips_mu_and_sigma_to_their_ranges() -> None:
    layer = FocusedLinear(30, 3, mu_range=(-0.5, 0.5), sigma_range=(0.2, 0.4))
    with torch.no_grad():
        layer.foci.mu.copy_(torch.tensor([-9.0, 0.3, 9.0]))
        layer.foci.sigma.copy_(torch.tensor([-9.0, 0.3, 9.0]))
    weight, before = layer.weight.detach().clone(), layer.mu
    layer.constrain_()
    torch.testing.assert_close(layer.foci.mu, torch.tensor([-0.5, 0.3, 0.5]))
    torch.testing.assert_close(layer.foci.sigma, torch.tensor([0.2, 0.3, 0.4]))
    assert layer.mu is before
    assert torch.equal(layer.weight, weight)


def test_regularization() -> None:
    layer = FocusedLinear(12, 3, topology=(3, 4), sigma=torch.tensor([[0.1, 0.2]] * 3))
    assert layer.regularization(1).item() == pytest.approx(0.9)
    assert layer.regularization(2).item() == pytest.approx(0.15)
    assert layer.regularization().item() == layer.regularization(2).item()
    (layer.regularization(1) + layer.regularization(2)).backward()
    torch.testing.assert_close(layer.sigma.grad, 1 + 2 * layer.sigma.detach())
    assert layer.weight.grad is None


class TestPrune:
    @pytest.mark.parametrize("focus", FOCI)
    @pytest.mark.usefixtures("strays_fail")
    def test_phi_below_the_threshold_becomes_zero(
        self, focus: str, device: torch.device, dtype: torch.dtype
    ) -> None:
        factory: Any = {"device": device, "dtype": dtype}
        layer = FocusedLinear(50, 8, focus=focus, sigma=(0.05, 0.2), **factory).eval()
        before = layer.phi().detach()
        sparsity = layer.prune(0.7)
        gone = before.abs() < 0.7
        assert 0 < sparsity < 1
        assert sparsity == pytest.approx(gone.double().mean().item())
        torch.testing.assert_close(layer.phi(), torch.where(gone, 0.0, before))
        expected = torch.where(gone, 0.0, before * layer.weight)
        torch.testing.assert_close(layer.effective_weight(), expected)
        x = torch.randn(3, 50, **factory)
        assert_same(layer(x), x @ expected.T)

    def test_zero_drops_nothing_and_infinity_everything(self) -> None:
        layer = FocusedLinear(50, 8)
        assert layer.prune(0.0) == 0
        assert layer.prune(float("inf")) == 1
        assert torch.equal(layer(torch.randn(3, 50)), torch.zeros(3, 8))

    def test_pruning_is_permanent(self) -> None:
        layer = FocusedLinear(50, 8, sigma=0.1)
        first = layer.prune(1.0)
        gone = layer.phi() == 0
        assert layer.prune(0.1) == first
        with torch.no_grad():
            layer.sigma.fill_(1.0)
            layer.mu.fill_(0.5)
        assert layer.prune(0.0) == first
        assert torch.equal(layer.phi() == 0, gone)
        assert layer.prune(1.1) > first

    def test_the_state_dict_holds_the_mask(self) -> None:
        pruned, fresh = FocusedLinear(50, 8, sigma=0.1), FocusedLinear(50, 8)
        pruned.prune(1.0)
        phi = pruned.phi()
        pruned.load_state_dict({}, strict=False)  # keeps the mask
        assert torch.equal(pruned.phi(), phi)
        file = io.BytesIO()
        torch.save(nn.Sequential(pruned).state_dict(), file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
        assert [*state] == [f"0.{name}" for name in ("weight", "bias", "mu", "sigma", "mask")]
        twin = nn.Sequential(FocusedLinear(50, 8)).double()
        twin.load_state_dict(state)
        assert torch.equal(twin[0].phi() == 0, phi == 0)
        pruned.load_state_dict(fresh.state_dict())  # removes the mask
        assert torch.equal(pruned.phi(), fresh.phi())


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("focus", FOCI)
@pytest.mark.usefixtures("strays_fail")
def test_fold_gives_a_linear_layer(
    focus: str, bias: bool, pruned: bool, device: torch.device
) -> None:
    layer = FocusedLinear(40, 9, bias, focus=focus, mu="random", sigma=0.1, device=device).eval()
    if bias:
        nn.init.normal_(layer.bias)
    if pruned:
        layer.prune(0.5)
    plain, x = layer.fold(), torch.randn(5, 40, device=device)
    assert type(plain) is nn.Linear
    assert plain.weight.requires_grad
    assert not plain.training
    y = layer(x)
    assert_same(plain(x), y)
    nn.init.ones_(plain.weight)  # a copy
    assert torch.equal(layer(x), y)
    assert layer.bfloat16().fold().weight.dtype == torch.bfloat16


def test_repr() -> None:
    text = FocusedLinear(30, 4, False, sigma=0.1, train_sigma=False).extra_repr()
    assert text == (
        "in_features=30, out_features=4, bias=False, focus=gaussian, mu=0.2..0.8, "
        "sigma=0.1..0.1 (fixed)"
    )
    layer = FocusedLinear(30, 4, topology=(5, 6))
    with torch.no_grad():
        layer.sigma[1] = 0.5
    sparsity = layer.prune(0.5)
    for part in ("sigma=0.025..0.5", "topology=(5, 6)", f"sparsity={sparsity:.3f}"):
        assert part in repr(layer)
    assert "(9, 2)" in repr(FocusedLinear(9, 2, topology=torch.rand(9, 2)))
    assert "((4, 4), 6)" in repr(FocusedLinear(96, 2, topology=((4, 4), 6)))
    options: Any = {"normalizer": "mean", "grid": "index", "units_per_focus": 2}
    assert "normalizer=mean, grid=index, units_per_focus=2" in repr(FocusedLinear(9, 2, **options))


NAN = math.nan
WRONG: list[tuple[dict[str, Any], str, str]] = [  # arguments, name and value, remedy
    ({"sigma": 0.0}, "sigma has values from 0 to 0", "greater than 0"),
    ({"sigma": math.inf}, "sigma has values from inf", "finite"),
    ({"sigma": torch.tensor([0.1, NAN, 0.1])}, "sigma has values from nan", "finite"),
    ({"sigma": torch.full((3, 2), -0.5), "topology": (2, 3)}, "-0.5", "greater than 0"),
    ({"sigma": (0.0, 0.5)}, "sigma=(0.0, 0.5)", "0 < low <= high"),
    ({"sigma": (0.3, 0.1)}, "sigma=(0.3, 0.1)", "0 < low <= high"),
    ({"sigma": (0.1, 0.2, 0.3)}, "sigma=(0.1, 0.2, 0.3)", "range (low, high)"),
    ({"sigma": "wide"}, "sigma='wide'", "a number, a range"),
    ({"sigma": torch.ones(5)}, "sigma has shape (5,)", "(3, 1)"),
    ({"mu": torch.tensor([0.1, NAN, 0.2])}, "mu has values from nan", "mu_range=(0.0, 1.0)"),
    ({"mu": 0.1, "mu_range": (0.2, 0.8)}, "0.1 to 0.1", "mu_range=(0.2, 0.8)"),
    ({"mu": "middle"}, "mu='middle'", "spread"),
    ({"mu": None}, "mu=None", "a number or a tensor"),
    ({"mu": [True, 0.5, 0.5]}, "mu=[True, 0.5, 0.5]", "a number or a tensor"),
    ({"mu": torch.rand(2, 2)}, "mu has shape (2, 2)", "(3, 1)"),
    ({"focus": "gauss"}, "focus='gauss'", "gaussian, negated_gaussian"),
    ({"init": "xavier"}, "init='xavier'", "focus_glorot, glorot, he, per_connection"),
    ({"normalizer": "max"}, "normalizer='max'", "l2, sum, mean, none"),
    ({"grid": "i/m"}, "grid='i/m'", "linspace, index"),
    ({"grid": "index", "topology": torch.rand(6)}, "grid='index'", "leave it out"),
    ({"backend": "cuda"}, "backend='cuda'", "auto, reference, torch, numba, numba_banded"),
    ({"sigma_range": (0.0, 1.0)}, "sigma_range=(0.0, 1.0)", "0 < low <= high"),
    ({"sigma_range": (NAN, 1.0)}, "sigma_range=(nan, 1.0)", "0 < low <= high"),
    ({"mu_range": (1.0, 0.0)}, "mu_range=(1.0, 0.0)", "low <= high"),
    ({"mu_range": None}, "mu_range=None", "low <= high"),
    ({"cutoff": NAN}, "cutoff=nan", "between 0 and 1"),
    ({"topology": (2, 2)}, "topology=(2, 2)", "in_features=6"),
    ({"in_features": 0}, "in_features=0", "positive integer"),
    ({"out_features": True}, "out_features=True", "positive integer"),
    ({"units_per_focus": 0}, "units_per_focus=0", "positive integer"),
    ({"units_per_focus": 2}, "units_per_focus=2", "out_features=3"),
    ({"units_per_focus": 3, "mu": torch.rand(3)}, "mu has shape (3,)", "(1, 1)"),
    ({"margin": 0.5}, "margin=0.5", "less than 0.5"),
    ({"margin": NAN}, "margin=nan", "at least 0"),
    ({"topology": "previous"}, "topology='previous' is a word", "layer itself"),
    ({"topology": FocusedLinear(2, 5)}, "a layer of 5 neurons", "in_features=6"),
    ({"topology": FocusedLinear(2, 6, mu_range=(-1, 1))}, "mu_range=(-1.0, 1.0)", "(0, 1)"),
]


@pytest.mark.parametrize(("arguments", "named", "allowed"), WRONG, ids=[case[1] for case in WRONG])
def test_wrong_arguments(arguments: dict[str, Any], named: str, allowed: str) -> None:
    """The message is one sentence with the argument, its value, and what is allowed."""
    with pytest.raises(ValueError, match=re.escape(named)) as error:
        FocusedLinear(**{"in_features": 6, "out_features": 3, **arguments})
    text = str(error.value)
    assert allowed in text
    assert text.endswith(".")
    assert ". " not in text
    assert "\n" not in text


def test_methods_check_their_arguments() -> None:
    layer = FocusedLinear(6, 3)
    for threshold in (-0.1, NAN):
        with pytest.raises(ValueError, match=r"^threshold=.* must be 0 or greater\.$"):
            layer.prune(threshold)
    assert (layer.phi() != 0).all()
    for p in (0, 3, 1.5):
        with pytest.raises(ValueError, match=r"^p=.* must be 1 or 2\.$"):
            layer.regularization(p)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_of_a_wrong_size_or_type_are_refused(backend: str) -> None:
    for bias in (True, False):
        layer = FocusedLinear(6, 3, bias, backend=backend)
        for shape in ((5,), (4, 3), (3, 4), (2, 6, 1), (), (2, 12)):
            own = re.escape(f"{shape}: its last dimension must be in_features=6.")
            with pytest.raises(
                RuntimeError, match="linear|mat1" if backend == "reference" else own
            ):
                layer(torch.zeros(shape))
        for dtype in (torch.float64, torch.bfloat16, torch.int64):
            with pytest.raises(RuntimeError):
                layer(torch.zeros(2, 6, dtype=dtype))
