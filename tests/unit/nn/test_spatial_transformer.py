"""SpatialTransformer: an affine window of each sample, sampled as torch's grid_sample does."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from focusing.nn import DynamicFocus, SpatialTransformer
from focusing.nn.spatial_transformer import interpolate

FRAMES = [((13,), 1), ((12,), 3), ((9, 11), 1), ((8, 10), 2), ((5, 6, 7), 1)]


def stirred(frame: tuple, grid: tuple[int, ...] | None = None, **options) -> SpatialTransformer:
    """A transformer whose samples have maps of their own."""
    torch.manual_seed(0)
    net = SpatialTransformer(frame, grid, pool=2, kernel=3, dtype=torch.float64, **options)
    with torch.no_grad():
        net.deviation.weight.normal_(std=0.5)
        net.theta.add_(0.2 * torch.rand_like(net.theta))
    return net


@pytest.mark.parametrize("frame", [((9, 11), 1), ((8, 10), 2), ((5, 6, 7), 1)], ids=str)
def test_agrees_with_torch(frame) -> None:
    axes, channels = frame
    net = stirred(frame, tuple(range(3, 3 + len(axes))))
    x = torch.rand(4, *axes, channels, dtype=torch.float64)
    flipped = net.maps(x).flip(1)  # torch's order of coordinates is the reverse of that of axes
    theta = torch.cat([flipped[..., :-1].flip(2), flipped[..., -1:]], dim=-1)
    places = functional.affine_grid(theta, [4, channels, *net.grid], align_corners=True)
    expected = functional.grid_sample(
        x.movedim(-1, 1), places, align_corners=True, padding_mode="border"
    )
    torch.testing.assert_close(net(x), expected.movedim(1, -1))


def test_a_line_is_interpolated() -> None:
    x = torch.tensor([[0.0, 10.0, 40.0]])[..., None]
    places = torch.tensor([[0.0, 0.25, 0.75, 1.0, 1.7, -3.0]])[..., None]
    assert interpolate(x, places).flatten().tolist() == [0, 5, 25, 40, 40, 0]


def test_it_starts_from_the_identity() -> None:
    x = torch.rand(3, 9, 11)
    torch.testing.assert_close(SpatialTransformer((9, 11), (9, 11), pool=2)(x)[..., 0], x)
    windows = SpatialTransformer((9, 11), pool=2, extent=0.5).windows(x)
    assert windows.centre.eq(0.5).all()
    assert windows.extent.eq(0.5).all()


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_gradients(frame) -> None:
    axes, channels = frame
    net = stirred(frame, (2,) * len(axes))
    x = torch.rand(2, *axes, channels, dtype=torch.float64, requires_grad=True)
    names, values = zip(*net.named_parameters(), strict=True)

    def call(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(net, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *values), fast_mode=True)


def test_it_has_at_least_as_many_parameters_as_the_saliency() -> None:
    ours, rival = (
        sum(weights.numel() for weights in layer.parameters())
        for layer in (DynamicFocus((60, 60)), SpatialTransformer((60, 60)))
    )
    assert ours == 861
    assert rival == 886


def test_autocast_vmap_compile_and_export(device: torch.device) -> None:
    net = stirred((20, 24), (5, 6)).float()
    x = torch.rand(4, 20, 24)
    maps, expected = net.maps(x), net(x)
    with torch.autocast(device.type, torch.bfloat16):
        torch.testing.assert_close(net.maps(x), maps, rtol=0, atol=0)
        torch.testing.assert_close(net(x), expected)
    torch.testing.assert_close(torch.vmap(lambda one: net(one[None])[0])(x), net(x))
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), net(x))
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(net, (x,), dynamic_shapes=((batch, None, None),))
    torch.testing.assert_close(program.module()(x[:3]), net(x[:3]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"topology": None}, "topology must be a shape"),
        ({"grid": (3,)}, "must have a number for each axis"),
        ({"filters": 0}, "filters=0 must be a positive integer"),
        ({"cells": 0}, "cells=0 must be a positive integer"),
        ({"kernel": 4}, "must be odd"),
        ({"pool": 30}, "larger than the frame"),
        ({"extent": 0.0}, "extent=0.0 must be positive"),
    ],
)
def test_wrong_arguments(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        SpatialTransformer(**{"topology": (12, 12), "grid": (4, 4)} | arguments)
