"""What a FocusedLinear can do beside its product."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn

import focusing
import focusing.nn
from focusing import FocusedLinear
from tests.unit.nn.oracle import BACKENDS, FOCI, assert_same


def test_exported_from_the_package() -> None:
    assert focusing.FocusedLinear is focusing.nn.FocusedLinear


def test_signature_begins_as_that_of_linear_and_is_the_documented_one() -> None:
    parameters = inspect.signature(FocusedLinear).parameters
    plain = inspect.signature(nn.Linear).parameters
    assert [*parameters][:3] == [*plain][:3] == ["in_features", "out_features", "bias"]
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert defaults == {
        "in_features": inspect.Parameter.empty,
        "out_features": inspect.Parameter.empty,
        "bias": True,
        "topology": None,
        "focus": "gaussian",
        "mu": "spread",
        "sigma": 0.025,
        "train_mu": True,
        "train_sigma": True,
        "grid": "linspace",
        "init": "focus_glorot",
        "sigma_range": (0.01, 1.0),
        "mu_range": (0.0, 1.0),
        "normalizer": "l2",
        "backend": "auto",
        "cutoff": 1e-7,
        "device": None,
        "dtype": None,
    }


@pytest.mark.parametrize("bias", [True, False])
def test_weight_and_bias_are_named_and_shaped_as_in_linear(bias: bool) -> None:
    focused, plain = FocusedLinear(6, 4, bias), nn.Linear(6, 4, bias)
    missing, unexpected = focused.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == (["mu", "sigma"], [])
    assert torch.equal(focused.weight, plain.weight)
    assert (focused.bias is None) == (plain.bias is None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("topology", [None, (5, 8)])
def test_with_a_huge_sigma_it_is_a_linear_layer(topology: Any, backend: str) -> None:
    focused = FocusedLinear(40, 30, sigma=1e3, topology=topology, backend=backend)
    plain = nn.Linear(40, 30)
    focused.load_state_dict(plain.state_dict(), strict=False)
    x = torch.randn(7, 40)
    assert_same(focused(x), plain(x))
    for layer in (focused, plain):
        layer(x).square().sum().backward()
    assert_same(focused.weight.grad, plain.weight.grad)


def test_frozen_foci() -> None:
    layer = FocusedLinear(6, 4, train_mu=False, train_sigma=True)
    assert (layer.mu.requires_grad, layer.sigma.requires_grad) == (False, True)
    layer = FocusedLinear(6, 4, train_mu=True, train_sigma=False)
    assert (layer.mu.requires_grad, layer.sigma.requires_grad) == (True, False)
    assert {"mu", "sigma"} < dict(layer.named_parameters()).keys()


class TestFoci:
    def test_a_reader_sees_vectors_on_a_line(self) -> None:
        layer = FocusedLinear(6, 4)
        assert layer.mu.shape == (4, 1)
        assert layer.foci.mu.shape == layer.foci.sigma.shape == (4,)
        assert FocusedLinear(6, 4, topology=(2, 3)).foci.mu.shape == (4, 2)

    @pytest.mark.parametrize("topology", [None, (2, 3)])
    def test_they_are_views(self, topology: Any) -> None:
        layer = FocusedLinear(6, 4, topology=topology)
        with torch.no_grad():
            layer.foci.mu[2] = 0.125
            layer.foci.sigma[3] = 0.75
        assert (layer.mu[2] == 0.125).all()
        assert (layer.sigma[3] == 0.75).all()
        layer.foci.sigma.sum().backward()
        assert (layer.sigma.grad == 1).all()


class TestConstrain:
    def test_after_a_wild_step(self) -> None:
        torch.manual_seed(0)
        layer = FocusedLinear(30, 20)
        optimizer = torch.optim.SGD(layer.parameters(), lr=1e4)
        layer(torch.randn(5, 30)).square().sum().backward()
        optimizer.step()
        assert (layer.mu < 0).any()
        assert (layer.mu > 1).any()
        assert (layer.sigma < 0.01).any()
        layer.constrain_()
        assert ((layer.mu >= 0) & (layer.mu <= 1)).all()
        assert ((layer.sigma >= 0.01) & (layer.sigma <= 1)).all()
        assert layer(torch.randn(5, 30)).isfinite().all()

    def test_clips_each_to_its_own_range(self) -> None:
        layer = FocusedLinear(30, 3, mu_range=(-0.5, 0.5), sigma_range=(0.2, 0.4))
        with torch.no_grad():
            layer.foci.mu.copy_(torch.tensor([-9.0, 0.3, 9.0]))
            layer.foci.sigma.copy_(torch.tensor([-9.0, 0.3, 9.0]))
        weight = layer.weight.detach().clone()
        before = layer.mu
        layer.constrain_()
        torch.testing.assert_close(layer.foci.mu, torch.tensor([-0.5, 0.3, 0.5]))
        torch.testing.assert_close(layer.foci.sigma, torch.tensor([0.2, 0.3, 0.4]))
        assert layer.mu is before
        assert torch.equal(layer.weight, weight)


class TestRegularization:
    def test_values_and_gradients(self) -> None:
        layer = FocusedLinear(12, 3, topology=(3, 4), sigma=torch.tensor([[0.1, 0.2]] * 3))
        assert layer.regularization(1).item() == pytest.approx(0.9)
        assert layer.regularization(2).item() == pytest.approx(0.15)
        assert layer.regularization().item() == layer.regularization(2).item()
        layer.regularization(1).backward()
        torch.testing.assert_close(layer.sigma.grad, torch.ones(3, 2))
        layer.regularization(2).backward()
        torch.testing.assert_close(layer.sigma.grad, 1 + 2 * layer.sigma.detach())
        assert layer.weight.grad is None


class TestPrune:
    @pytest.mark.parametrize("focus", FOCI)
    def test_phi_below_the_threshold_becomes_zero(self, focus: str) -> None:
        layer = FocusedLinear(50, 8, focus=focus, sigma=(0.05, 0.2)).eval()
        before = layer.phi().detach()
        sparsity = layer.prune(0.7)
        gone = before.abs() < 0.7
        assert 0 < sparsity < 1
        assert sparsity == pytest.approx(gone.double().mean().item())
        torch.testing.assert_close(layer.phi(), torch.where(gone, 0.0, before))
        expected = torch.where(gone, 0.0, before * layer.weight)
        torch.testing.assert_close(layer.effective_weight(), expected)
        x = torch.randn(3, 50)
        assert_same(layer(x), x @ expected.T)

    def test_zero_drops_nothing_and_infinity_everything(self) -> None:
        layer = FocusedLinear(50, 8)
        assert layer.prune(0.0) == 0
        assert layer.prune(float("inf")) == 1
        assert torch.equal(layer(torch.randn(3, 50)), torch.zeros(3, 8))

    def test_what_is_gone_never_comes_back(self) -> None:
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

    @pytest.mark.parametrize("backend", ["reference", "auto", "numba_banded"])
    def test_pruned_connections_do_not_learn(self, backend: str) -> None:
        layer = FocusedLinear(50, 8, sigma=0.1, backend=backend)
        layer.prune(1.0)
        gone = layer.phi() == 0
        layer(torch.randn(9, 50)).square().sum().backward()
        assert (layer.weight.grad[gone] == 0).all()
        assert (layer.weight.grad[~gone] != 0).all()

    def test_survives_the_state_dict(self) -> None:
        layer = FocusedLinear(50, 8, sigma=0.1)
        layer.prune(1.0)
        fresh = FocusedLinear(50, 8)
        fresh.load_state_dict(layer.state_dict())
        assert torch.equal(fresh.phi(), layer.phi())
        x = torch.randn(3, 50)
        assert torch.equal(fresh(x), layer(x))

    def test_a_state_without_pruning_undoes_it(self) -> None:
        layer, fresh = FocusedLinear(50, 8, sigma=0.1), FocusedLinear(50, 8)
        layer.prune(1.0)
        layer.load_state_dict(fresh.state_dict())
        assert torch.equal(layer.phi(), fresh.phi())

    def test_a_state_of_something_else_leaves_it(self) -> None:
        layer = FocusedLinear(50, 8, sigma=0.1)
        layer.prune(1.0)
        phi = layer.phi()
        layer.load_state_dict({}, strict=False)
        assert torch.equal(layer.phi(), phi)

    def test_follows_the_module(self) -> None:
        model = nn.Sequential(FocusedLinear(50, 8, sigma=0.1))
        model[0].prune(1.0)
        state = model.state_dict()
        assert state["0.mask"].dtype == torch.bool
        other = nn.Sequential(FocusedLinear(50, 8)).double()
        other.load_state_dict(state)
        assert torch.equal(other[0].phi() == 0, model[0].phi() == 0)


class TestFold:
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("pruned", [True, False])
    @pytest.mark.parametrize("focus", FOCI)
    def test_equals_the_layer_in_eval_mode(self, focus: str, pruned: bool, bias: bool) -> None:
        layer = FocusedLinear(40, 9, bias, focus=focus, mu="random", sigma=0.1).eval()
        if bias:
            nn.init.normal_(layer.bias)
        if pruned:
            layer.prune(0.5)
        plain = layer.fold()
        assert type(plain) is nn.Linear
        assert plain.weight.requires_grad
        assert not plain.training
        x = torch.randn(5, 40)
        assert_same(plain(x), layer(x))

    def test_shares_nothing_and_keeps_the_dtype(self) -> None:
        layer = FocusedLinear(40, 9, dtype=torch.bfloat16)
        plain = layer.fold()
        assert plain.weight.dtype == plain.bias.dtype == torch.bfloat16
        nn.init.ones_(plain.bias)
        assert (layer.bias == 0).all()
        assert plain.training


class TestRepr:
    def test_tells_ranges(self) -> None:
        text = FocusedLinear(30, 4, False, sigma=0.1, train_sigma=False).extra_repr()
        assert text == (
            "in_features=30, out_features=4, bias=False, focus=gaussian, mu=0.2..0.8, "
            "sigma=0.1..0.1 (fixed)"
        )

    def test_follows_the_foci_and_pruning(self) -> None:
        layer = FocusedLinear(30, 4, topology=(5, 6))
        with torch.no_grad():
            layer.sigma[1] = 0.5
        sparsity = layer.prune(0.5)
        text = repr(layer)
        for part in ("sigma=0.025..0.5", "topology=(5, 6)", f"sparsity={sparsity:.3f}"):
            assert part in text
        positions = FocusedLinear(9, 2, topology=torch.rand(9, 2))
        assert "(9, 2)" in repr(positions)
        assert "((4, 4), 6)" in repr(FocusedLinear(96, 2, topology=((4, 4), 6)))
