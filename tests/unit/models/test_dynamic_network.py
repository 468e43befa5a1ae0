"""Networks behind dynamic foci: configuration, training, summary, dense twin, inference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from focusing.config import Optim
from focusing.errors import UserError
from focusing.models import DynamicNetwork, build_network
from focusing.nn import (
    DynamicFocus,
    FocusConstraint,
    FocusedLinear,
    SpatialTransformer,
    param_groups,
)
from focusing.training.optimizer import build_optimizer, set_learning_rates

DENSE: dict[str, Any] = {"_target_": "focusing.models.dense_mlp", "hidden": [12]}
FOCUSED: dict[str, Any] = {
    "_target_": "focusing.models.focused_mlp",
    "hidden": [12, 12],
    "topology": "image",
    "sigma": 0.1,
    "focus_layers": "first",
}
CNN: dict[str, Any] = {"_target_": "focusing.models.CNN", "filters": [4], "kernel": 3, "hidden": 8}
WINDOW = {"grid": [8, 8], "pool": 2, "kernel": 3}


def build(model: dict[str, Any], **dynamic: Any) -> DynamicNetwork:
    torch.manual_seed(0)
    net = build_network({**model, "dynamic": WINDOW | dynamic}, inputs=(20, 20, 1), outputs=4)
    assert isinstance(net, DynamicNetwork)
    return net


@pytest.mark.parametrize("reader", [{"glimpses": 2}, {"kind": "stn"}], ids=["focus", "stn"])
@pytest.mark.parametrize("model", [DENSE, FOCUSED, CNN], ids=["dense", "2d", "cnn"])
def test_in_front_of_any_network(model: dict[str, Any], reader: dict[str, Any]) -> None:
    net = build(model, **reader)
    x = torch.rand(3, 20, 20, 1)
    assert net.net.shape == (8, 8, net.focus.glimpses)
    assert net(x).shape == (3, 4)
    net(x).square().sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    groups = {group["name"]: group["params"] for group in param_groups(net, lr=0.3)}
    assert set(map(id, groups["dynamic"])) == set(map(id, net.focus.parameters()))


@pytest.mark.parametrize("reader", [{"glimpses": 2}, {"kind": "stn"}], ids=["focus", "stn"])
def test_windows_may_move_along_some_axes(reader: dict[str, Any]) -> None:
    """The network sees the same as if each row were a channel."""
    dynamic = {**WINDOW, **reader, "grid": [5], "axes": [1]}
    net = build_network({**CNN, "dynamic": dynamic}, inputs=(6, 20, 3), outputs=4)
    assert isinstance(net, DynamicNetwork)
    glimpses = net.focus.glimpses
    assert net.net.shape == (6, 5, 3 * glimpses)
    x = torch.rand(2, 6, 20, 3)
    seen: list[torch.Tensor] = []
    net.net.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    assert net(x).shape == (2, 4)
    read = net.focus(x.movedim(2, 1).flatten(2)).reshape(2, 5, glimpses, 6, 3)
    torch.testing.assert_close(seen[0].reshape(2, 6, 5, glimpses, 3), read.permute(0, 3, 1, 2, 4))
    windows = net.windows(x)
    assert windows.centre.shape == (2, glimpses, 2)
    assert windows.centre[..., 0].eq(0.5).all()
    assert windows.extent[..., 0].eq(1).all()
    assert windows.extent[..., 1].eq(1.0 if "kind" in reader else 0.55).all()


def test_a_frozen_finder() -> None:
    net = build(DENSE, train_centre=False)
    groups = {group["name"]: group["params"] for group in param_groups(net, lr=0.3)}
    assert len(groups["dynamic"]) == 2  # extent and aperture
    assert not any(weights.requires_grad for weights in net.focus.finder.parameters())


def test_the_summary_counts_the_windows() -> None:
    layers = {layer.name: layer for layer in build(DENSE).summary().layers}
    assert layers["focus"].multiply_adds == 8 * 20 * 20 + 8 * 8 * 20
    assert layers["focus.finder.features"].multiply_adds == 8 * 5 * 5 * 10 * 10
    assert layers["focus.finder"].connections == 8 * 3 * 3
    assert layers["focus.finder"].multiply_adds == 8 * 3 * 3 * 10 * 10
    assert layers["focus"].output == (8, 8, 1)
    layers = {layer.name: layer for layer in build(DENSE, kind="stn").summary().layers}
    assert layers["focus"].multiply_adds == 64 * (6 + 4 * 3)
    assert layers["focus.convolution"].multiply_adds == 11 * 9 * 100


def test_the_dense_twin_sees_the_whole_frame() -> None:
    net = build(FOCUSED)
    twin = net.match_parameters()
    assert twin.shape == (20, 20, 1)
    assert not twin.focused_layers()
    own, other = (sum(w.numel() for w in one.parameters()) for one in (net, twin))
    assert abs(own - other) < 500


def test_the_twin_of_windows_alone_has_no_width_to_grow() -> None:
    twin = build({**DENSE, "hidden": []}).match_parameters()
    assert twin.widths == ()
    assert twin.shape == (20, 20, 1)


@pytest.mark.parametrize(("kind", "layer"), [("focus", DynamicFocus), ("stn", SpatialTransformer)])
def test_inference_keeps_the_windows_and_folds_the_rest(kind: str, layer: type) -> None:
    net = build(FOCUSED, kind=kind)
    net(torch.rand(16, 20, 20, 1))  # updates batch norm
    net.eval()
    plain = net.to_inference()
    kinds = [type(module) for module in plain.modules()]
    assert layer in kinds
    assert FocusedLinear not in kinds
    assert nn.BatchNorm1d not in kinds
    x = torch.rand(5, 20, 20, 1)
    torch.testing.assert_close(plain(x), net(x), rtol=1e-4, atol=1e-5)


def test_windows_have_their_own_learning_rate() -> None:
    net = build(FOCUSED)
    rates = {group["name"]: group["lr"] for group in param_groups(net, lr=0.3, lr_mu=0.1)}
    assert rates["dynamic"] == pytest.approx(0.01)
    optim = Optim(
        name="SGD", lr=0.1, lr_mu=0.01, lr_sigma=0.01, batch_size=4, decay_epochs=[1], decay=0.5
    )
    optimizer = build_optimizer(net, optim)
    groups = {group["name"]: group for group in optimizer.param_groups}
    assert groups["dynamic"]["lr"] == 0.003
    set_learning_rates(optimizer, optim, 1)
    assert groups["dynamic"]["lr"] == 0.0015


def test_the_constraint_covers_windows() -> None:
    net = build(DENSE)
    optimizer = torch.optim.SGD(param_groups(net, lr=0.1))
    constraint = FocusConstraint(net, optimizer)
    with torch.no_grad():
        net.focus.extent.fill_(-1)
    optimizer.step()
    assert net.focus.extent.min() > 0
    constraint.remove()


@pytest.mark.parametrize(
    ("dynamic", "message"),
    [
        ({"grid": [3]}, "model.dynamic: grid=.* must have a number for each axis"),
        ({"kernel": 2}, "model.dynamic: kernel=2 must be odd"),
        ({"glimpses": "x"}, "glimpses='x'"),
        ({"elsewhere": 1}, "model.dynamic: .*elsewhere"),
        ({"kind": "eye"}, "model.dynamic.kind=eye is not one of focus, stn"),
        ({"axes": [1, 0]}, "model.dynamic.axes=.* must name axes of a sample in order"),
        ({"axes": [2]}, "model.dynamic.axes=.* from 0 to 1"),
    ],
)
def test_wrong_options(dynamic: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(DENSE, **dynamic)


def test_tabular_data_has_no_windows() -> None:
    with pytest.raises(UserError, match=r"model.dynamic needs samples with a shape"):
        build_network({**DENSE, "dynamic": WINDOW}, inputs=(20,), outputs=2)
