"""Neurons that share a focus, and layers whose positions are the previous layer's centres."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from focusing import FocusedLinear
from tests.unit.nn import oracle
from tests.unit.nn.oracle import BACKENDS, FOCI, assert_same


def fields(**options: Any) -> FocusedLinear:
    torch.manual_seed(0)
    shape: Any = {"topology": (6, 6), "units_per_focus": 4, "sigma": (0.1, 0.3)}
    return FocusedLinear(36, 36, **{**shape, **options})


class TestUnitsPerFocus:
    @pytest.mark.parametrize("focus", FOCI)
    def test_neighbouring_neurons_have_the_same_phi(self, focus: str) -> None:
        layer = fields(focus=focus)
        assert layer.mu.shape == layer.sigma.shape == (9, 2)
        tau, mu, sigma = (oracle.array(v) for v in (layer.tau, *layer.neuron_foci()))
        assert np.array_equal(mu, np.repeat(oracle.array(layer.mu), 4, axis=0))
        expected = oracle.coefficients(tau, mu, sigma, focus, "l2")
        np.testing.assert_allclose(oracle.array(layer.phi()), expected, rtol=1e-4, atol=1e-5)

    def test_outputs_are_an_image_with_channels(self) -> None:
        """As docs/layer.md says: (N, rows, columns, units)."""
        layer = fields(margin=0.1)
        line = torch.linspace(0.1, 0.9, 3)
        places = layer.neuron_foci().mu.view(3, 3, 4, 2)
        for row, column, unit in [(0, 0, 0), (0, 2, 3), (1, 0, 1), (2, 1, 2)]:
            expected = torch.stack([line[row], line[column]])
            torch.testing.assert_close(places[row, column, unit], expected)


class TestPrevious:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("units", [1, 2])
    def test_positions_are_the_current_centres(self, backend: str, units: int) -> None:
        torch.manual_seed(0)
        first = FocusedLinear(36, 18, topology=(6, 6), units_per_focus=units)
        second = FocusedLinear(18, 10, topology=first, sigma=0.2, backend=backend)
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
        x = torch.randn(4, 36)
        for _ in range(3):
            tau = first.mu.detach().repeat_interleave(units, dim=0).clone()
            still = FocusedLinear(18, 10, topology=tau, backend="reference")
            still.load_state_dict(second.state_dict())
            hidden = first(x).relu()
            y = second(hidden)
            assert_same(y, still(hidden))
            assert torch.equal(second.tau, tau)
            optimizer.zero_grad()
            y.square().sum().backward()
            optimizer.step()
            first.constrain_()
            second.constrain_()
            assert not torch.equal(second.tau, tau)  # updated without a forward pass
        assert "centres of the previous layer" in repr(second)

    def test_the_previous_layer_is_no_submodule(self) -> None:
        first = FocusedLinear(36, 9, topology=(6, 6))
        net = nn.Sequential(first, nn.ReLU(), FocusedLinear(9, 4, topology=first))
        assert [*net[2].state_dict()] == ["weight", "bias", "mu", "sigma"]
        twin = copy.deepcopy(net)
        with torch.no_grad():
            twin[0].mu += 0.05
        x = torch.randn(3, 36)
        with torch.inference_mode():
            twin(x)
        assert torch.equal(twin[2].tau, twin[0].mu)
        assert torch.equal(net[2].tau, net[0].mu)
        twin(x).sum().backward()  # with positions that were computed in inference mode
        assert net.double()[2].tau.dtype == torch.float64

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_every_way_of_moving_centres_is_noticed(self, backend: str) -> None:
        """Most of these leave the version of mu, or give another tensor of the same version."""
        first = FocusedLinear(36, 9, topology=(6, 6))
        net = nn.Sequential(first, FocusedLinear(9, 4, topology=first, sigma=0.2, backend=backend))
        x = torch.randn(3, 36)

        def assert_current() -> None:
            assert_same(net(x), copy.deepcopy(net)(x))

        assert_current()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05, fused=True)
        net(x).square().sum().backward()
        optimizer.step()
        assert_current()
        moved = {name: value.detach().clone() for name, value in net.named_parameters()}
        for _ in range(2):
            moved["0.mu"] = torch.rand(9, 2)
            y = functional_call(net, moved, x)
            net.load_state_dict(dict(moved), assign=True)
            assert_same(y, net(x))
            assert_current()
        moved["0.mu"] = torch.rand(9, 2)
        vector_to_parameters(parameters_to_vector(moved.values()), net.parameters())
        assert_current()

    def test_built_in_inference_mode(self) -> None:
        with torch.inference_mode():
            first = FocusedLinear(36, 9, topology=(6, 6))
            net = nn.Sequential(first, FocusedLinear(9, 4, topology=first))
            net[0].mu += 0.05
            net(torch.randn(3, 36))
            assert torch.equal(net[1].tau, net[0].mu)

    def test_coefficients_are_vmapped_over_parameters(self) -> None:
        nets = []
        for _ in range(2):
            first = FocusedLinear(12, 8, mu="random")
            nets.append(nn.Sequential(first, FocusedLinear(8, 4, topology=first, sigma=0.3)))
        net = copy.deepcopy(nets[0])
        net.forward = net[1].effective_weight
        parameters, _ = stack_module_state(nets)
        stacked = torch.vmap(lambda values: functional_call(net, values, ()))(parameters)
        assert_same(stacked, torch.stack([net[1].effective_weight() for net in nets]))

    def test_sparse_layers_know_moved_centres(self) -> None:
        first = FocusedLinear(36, 9, topology=(6, 6))
        net = nn.Sequential(first, FocusedLinear(9, 4, topology=first))
        with torch.no_grad():
            first.mu += 0.05
        moved = copy.deepcopy(net)[1].banded()
        net(torch.randn(3, 36))  # takes the centres as positions
        assert_same(moved(net[0].mu.T), net[1].banded()(net[0].mu.T))

    def test_compiled_and_vmapped(self) -> None:
        first = FocusedLinear(36, 9, topology=(6, 6))
        net = nn.Sequential(first, FocusedLinear(9, 4, topology=first))
        x = torch.randn(3, 36)
        assert_same(torch.vmap(net)(x), net(x))
        exported = torch.export.export(net, (x,)).module()
        assert_same(exported(x), net(x))
