"""Layers that read a window of each sample: DynamicFocus and SpatialTransformer."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from focusing.nn import DynamicFocus, SpatialTransformer, WindowReader
from focusing.nn.spatial_transformer import interpolate
from tests.unit.nn.oracle import array
from tests.unit.nn.oracle import grid as points

FRAMES = [((13,), 1), ((12,), 3), ((9, 11), 1), ((8, 10), 2), ((5, 6, 7), 1)]


def stirred(
    kind: type[WindowReader], frame: Any, grid: tuple[int, ...] | None = None, **options: Any
) -> Any:
    """A layer with perturbed parameters, so that each sample has its own window."""
    torch.manual_seed(0)
    layer = kind(frame, grid, pool=2, kernel=3, **{"dtype": torch.float64, **options})
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    return layer


def oracle(x: np.ndarray, axes, grid, centre, extent, sigma) -> np.ndarray:
    """The outputs of one sample (*axes, C), focus by focus, from the definition."""
    taus = [np.linspace(0, 1, size) for size in axes]
    out = np.zeros((*grid, x.shape[-1]))
    for place in itertools.product(*(range(foci) for foci in grid)):
        phi = np.ones(())
        for axis, k in enumerate(place):
            offset = 0.0 if grid[axis] == 1 else k / (grid[axis] - 1) - 0.5
            mu = centre[axis] + extent[axis] * offset
            log_g = -(((taus[axis] - mu) / sigma[axis]) ** 2) / 2
            g = np.exp(log_g - log_g.max())
            phi = phi[..., None] * (g / g.sum())
        out[place] = np.tensordot(phi, x, axes=len(axes))
    return out


@settings(max_examples=25, deadline=None)
@given(
    frame=st.sampled_from(FRAMES),
    centre=st.sampled_from(["saliency", "regressed", "static"]),
    glimpses=st.integers(1, 2),
    foci=st.integers(1, 4),
    features=st.sampled_from([0, 8]),
    seed=st.integers(0, 2**16),
)
def test_agrees_with_the_oracle(frame, centre, glimpses, foci, features, seed) -> None:
    torch.manual_seed(seed)
    axes, channels = frame
    grid = tuple(foci + axis for axis in range(len(axes)))
    options = {"centre": centre, "glimpses": glimpses, "features": features}
    focus = DynamicFocus(frame, grid, pool=2, kernel=3, dtype=torch.float64, **options)
    x = torch.rand(3, *axes, channels, dtype=torch.float64)
    windows = focus.windows(x)
    output = array(focus(x)).reshape(3, *grid, glimpses, channels)
    for sample in range(3):
        for glimpse in range(glimpses):
            window = [array(values[sample, glimpse]) for values in windows]
            expected = oracle(array(x[sample]), axes, grid, *window)
            np.testing.assert_allclose(output[sample, ..., glimpse, :], expected, atol=1e-12)


@pytest.mark.parametrize("frame", FRAMES, ids=str)
@pytest.mark.parametrize("options", [{}, {"zoom": True, "glimpses": 2}], ids=str)
def test_outputs_are_read_through_the_foci(frame, options) -> None:
    """Each output is a mean of the sample under one Gaussian in all axes at once."""
    axes, channels = frame
    grid = tuple(range(1, 1 + len(axes)))
    focus = stirred(DynamicFocus, frame, grid, jitter=0.1, **options)
    x = torch.rand(3, *axes, channels, dtype=torch.float64)
    mu, sigma = (array(values) for values in focus.foci(x))
    assert mu.shape == sigma.shape == (3, focus.glimpses, *grid, len(axes))
    tau = points(*axes).reshape(*axes, -1)
    output = array(focus.eval()(x)).reshape(3, *grid, focus.glimpses, channels)
    for sample, glimpse, *place in np.ndindex(mu.shape[:-1]):
        at = (sample, glimpse, *place)
        phi = np.exp((((tau - mu[at]) / sigma[at]) ** 2).sum(-1) / -2)
        expected = np.tensordot(phi / phi.sum(), array(x[sample]), axes=len(axes))
        np.testing.assert_allclose(output[(sample, *place, glimpse)], expected, atol=1e-9)


def test_gradients_of_the_foci() -> None:
    focus = stirred(DynamicFocus, (8, 10), (2, 3), zoom=True)
    x = torch.rand(2, 8, 10, dtype=torch.float64)
    mu, sigma = focus.foci(x)
    (mu.square().sum() + sigma.sum()).backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in focus.parameters())


def test_the_saliency_is_a_soft_argmax() -> None:
    """A blob filter finds a bright spot anywhere, to a fraction of a cell."""
    focus = DynamicFocus((60, 60), (28, 28), start="blob", temperature=100.0)
    places, line = torch.tensor([[0.25, 0.3], [0.5, 0.75], [0.7, 0.2]]), torch.linspace(0, 1, 60)
    spots = torch.exp((line - places[..., None]).square() / -(2 * 0.05**2))  # (images, axes, 60)
    centres = focus.windows(spots[:, 0, :, None] * spots[:, 1, None]).centre[:, 0]
    assert (centres - places).abs().max() < 0.03


@pytest.mark.parametrize("kind", [DynamicFocus, SpatialTransformer])
def test_jitter_moves_windows_in_training_only(kind: Any) -> None:
    """The input is a ramp, so that an output is the position of its focus."""
    options = {"centre": "static", "aperture": 0.1} if kind is DynamicFocus else {}
    focus = kind((101,), (1,), jitter=0.02, **options)
    x = torch.linspace(0, 1, 101).expand(500, -1)
    plain = focus.eval()(x)
    noise = (focus.train()(x) - plain).detach()
    assert noise.std() == pytest.approx(0.02, rel=0.2)
    assert torch.equal(focus.eval()(x), plain)
    state = torch.get_rng_state()
    focus.train().windows(x)  # uses no random numbers
    assert torch.equal(torch.get_rng_state(), state)


def test_zoom_changes_the_extent_of_each_sample_within_bounds() -> None:
    focus = DynamicFocus((20, 20), (6, 6), zoom=True)
    x = torch.rand(4, 20, 20)
    assert torch.allclose(focus.windows(x).extent, torch.tensor(0.55))
    with torch.no_grad():
        focus.finder.zoom.normal_(std=0.2)
    extent = focus.windows(x).extent
    assert extent.std(0).min() > 0
    assert extent.min() >= 0.55 / 2 - 1e-6
    assert extent.max() <= 0.55 * 2 + 1e-6


def test_custom_centre_module() -> None:
    class Corner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.shape[1:] == (3, 16, 16)  # channels first, as for convolutions
            return torch.zeros(x.shape[0], 1, 2)

    focus = DynamicFocus((16, 16, 3), (4, 4), centre=Corner())
    assert focus(torch.rand(5, 16, 16, 3)).shape == (5, 4, 4, 3)
    assert focus.windows(torch.rand(5, 16, 16, 3)).centre.eq(0).all()
    with pytest.raises(ValueError, match=r"centre gave shape .* but must give"):
        DynamicFocus((16, 16, 3), (4, 4), centre=Corner(), glimpses=2)(torch.rand(5, 16, 16, 3))


def test_constrain_clips_the_parameters() -> None:
    focus = DynamicFocus((16, 16), (4, 4))
    with torch.no_grad():
        focus.extent.fill_(-3)
        focus.aperture.fill_(100)
        focus.finder.temperature.fill_(-1)
    focus.constrain_()
    assert focus.extent.min() > 0
    assert focus.aperture.max() <= 5
    assert focus.finder.temperature.min() > 0
    assert focus(torch.rand(2, 16, 16)).isfinite().all()


@pytest.mark.parametrize("frame", [((9, 11), 1), ((8, 10), 2), ((5, 6, 7), 1)], ids=str)
def test_a_spatial_transformer_samples_as_torch_does(frame) -> None:
    axes, channels = frame
    net = stirred(SpatialTransformer, frame, tuple(range(3, 3 + len(axes))))
    x = torch.rand(4, *axes, channels, dtype=torch.float64)
    flipped = net.maps(x).flip(1)  # torch orders coordinates in reverse
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


def test_a_spatial_transformer_starts_from_the_identity() -> None:
    x = torch.rand(3, 9, 11)
    torch.testing.assert_close(SpatialTransformer((9, 11), (9, 11), pool=2)(x)[..., 0], x)
    windows = SpatialTransformer((9, 11), pool=2, extent=0.5).windows(x)
    assert windows.centre.eq(0.5).all()
    assert windows.extent.eq(0.5).all()


def test_both_have_about_as_many_parameters() -> None:
    for kind, count in ((DynamicFocus, 861), (SpatialTransformer, 886)):
        assert sum(weights.numel() for weights in kind((60, 60)).parameters()) == count


LAYERS: list[tuple[type[WindowReader], dict[str, Any]]] = [
    (DynamicFocus, {}),
    (DynamicFocus, {"features": 0}),
    (DynamicFocus, {"zoom": True, "glimpses": 2}),
    (DynamicFocus, {"centre": "regressed"}),
    (SpatialTransformer, {}),
]
every_layer = pytest.mark.parametrize(("kind", "options"), LAYERS)


@pytest.mark.parametrize("frame", FRAMES, ids=str)
@every_layer
def test_gradients(kind, options, frame) -> None:
    axes, channels = frame
    layer = stirred(kind, frame, (2,) * len(axes), **options)
    x = torch.rand(2, *axes, channels, dtype=torch.float64, requires_grad=True)
    names, values = zip(*layer.named_parameters(), strict=True)

    def call(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *values), fast_mode=True)


def test_whole_numbers_are_numbers() -> None:
    layer = DynamicFocus((12, 12), (3, 3), extent=1, aperture=1, temperature=10)
    assert all(values.is_floating_point() for values in layer.parameters())


@every_layer
def test_autocast_vmap_compile_export_and_meta(kind, options, device: torch.device) -> None:
    layer = stirred(kind, (20, 24), (5, 6), dtype=torch.float32, **options)
    x = torch.rand(4, 20, 24)
    expected, windows = layer(x), layer.windows(x)
    with torch.autocast(device.type, torch.bfloat16):
        torch.testing.assert_close(layer.windows(x), windows, rtol=0, atol=0)
        torch.testing.assert_close(layer(x).float(), expected, atol=0.02, rtol=0.02)
        assert layer(x.bfloat16()).isfinite().all()
    torch.testing.assert_close(torch.vmap(lambda one: layer(one[None])[0])(x), expected)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), expected)
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(layer, (x,), dynamic_shapes=((batch, None, None),))
    torch.testing.assert_close(program.module()(x[:3]), expected[:3])
    for assign in (True, False):
        on_meta = kind((20, 24), (5, 6), pool=2, kernel=3, device="meta", **options)
        assert on_meta(x.to("meta")).shape == expected.shape
        loaded = on_meta if assign else on_meta.to_empty(device=device)
        loaded.load_state_dict(layer.state_dict(), assign=assign)
        torch.testing.assert_close(loaded.eval()(x), layer.eval()(x))
    assert layer.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore")  # torch warns of its own exporter
def test_onnx(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    focus = stirred(DynamicFocus, (21, 24), (5, 6), zoom=True, glimpses=2, dtype=torch.float32)
    x, path = torch.rand(4, 21, 24), tmp_path / "dynamic.onnx"
    shapes = ((torch.export.Dim("batch", min=1), None, None),)
    torch.onnx.export(focus.eval(), (x,), path, dynamo=True, dynamic_shapes=shapes, verbose=False)
    session = onnxruntime.InferenceSession(path)
    (output,) = session.run(None, {session.get_inputs()[0].name: x[:3].cpu().numpy()})
    np.testing.assert_allclose(output, array(focus(x[:3])), atol=1e-5)


@pytest.mark.parametrize(
    ("kinds", "arguments", "message"),
    [
        ("both", {"topology": None}, "topology must be a shape"),
        ("both", {"topology": torch.rand(9, 2)}, "topology must be a shape"),
        ("both", {"topology": (0, 5)}, r"topology=\(0, 5\) must be a shape of one to three pos"),
        ("both", {"topology": 3}, "must be a shape"),
        ("both", {"topology": "ab"}, "must be a shape"),
        ("both", {"grid": 28}, r"grid=28 must have a number for each axis of \(12, 12\)"),
        ("both", {"grid": (3,)}, "must have a number for each axis"),
        ("both", {"grid": (3, 0)}, "grid=0 must be a positive integer"),
        ("both", {"kernel": 4}, "must be odd"),
        ("both", {"pool": 30}, "larger than the frame"),
        ("both", {"extent": 0.0}, "extent=0.0 must be a number from 0.05 to 1.5"),
        ("both", {"extent": 2.0}, "extent=2.0 must be a number from 0.05 to 1.5"),
        ("both", {"extent": True}, "extent=True must be a number"),
        ("both", {"extent": "a"}, "extent='a' must be a number"),
        ("both", {"extent": (0.5, 0.4)}, r"extent=\(0.5, 0.4\) must be a number"),
        ("both", {"jitter": -0.1}, "jitter=-0.1 must be a number from 0 to 1"),
        ("focus", {"centre": "nowhere"}, "neither a module nor one of saliency, regressed, static"),
        ("focus", {"centre": "static", "zoom": True}, "needs a centre that sees the sample"),
        ("focus", {"start": "middle"}, "not one of random, blob"),
        ("focus", {"glimpses": 0}, "glimpses=0 must be a positive integer"),
        ("focus", {"aperture": float("nan")}, "aperture=nan must be a number from 0.1 to 5"),
        ("focus", {"aperture": 6}, "aperture=6 must be a number from 0.1 to 5"),
        ("focus", {"temperature": 2e3}, "temperature=2000.0 must be a number from 0.1 to 1000"),
        ("focus", {"features": -1}, "features=-1 must be zero or a positive integer"),
        ("stn", {"filters": 0}, "filters=0 must be a positive integer"),
        ("stn", {"cells": 0}, "cells=0 must be a positive integer"),
    ],
)
def test_wrong_arguments(kinds: str, arguments: dict[str, Any], message: str) -> None:
    for name, kind in (("focus", DynamicFocus), ("stn", SpatialTransformer)):
        if kinds in ("both", name):
            with pytest.raises(ValueError, match=message):
                kind(**{"topology": (12, 12), "grid": (4, 4)} | arguments)


def test_wrong_input() -> None:
    with pytest.raises(ValueError, match=r"input has shape \(2, 10, 12\) but topology="):
        DynamicFocus((12, 12), (4, 4))(torch.rand(2, 10, 12))
