"""A FocusedLinear works wherever nn.Linear does."""

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jvp, stack_module_state, vmap
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from focusing import FocusedLinear, defocusify
from focusing.nn import to_inference
from tests.unit.nn.oracle import BACKENDS, FOCI, assert_same

ALL = ("auto", *BACKENDS)


def make(backend: str = "auto", **options: Any) -> FocusedLinear:
    return FocusedLinear(24, 10, **{"sigma": 0.1, "backend": backend, **options})


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("shape", [(24,), (0, 24), (5, 24), (2, 0, 24), (2, 3, 4, 24)])
def test_any_leading_dimensions(shape: tuple[int, ...], backend: str) -> None:
    layer = make(backend)
    x = torch.randn(shape, requires_grad=True)
    y = layer(x)
    assert y.shape == (*shape[:-1], 10)
    assert_same(y, nn.functional.linear(x, layer.effective_weight(), layer.bias))
    y.sum().backward()
    assert x.grad.shape == shape
    assert_same(x.grad, layer.effective_weight().sum(0).expand(shape))
    assert all(value.grad.isfinite().all() for value in layer.parameters())


@pytest.mark.parametrize("pruned", [False, True])
def test_all_ways_out_of_a_layer_know_its_normaliser_and_grid(pruned: bool) -> None:
    options = {"normalizer": "mean", "grid": "index", "init": "glorot", "mu": "random"}
    layer = make(**options).eval()
    if pruned:
        assert 0 < layer.prune(1.0) < 1
    x = torch.randn(5, 24)
    other = make(**options)
    other.load_state_dict(layer.state_dict())
    net = nn.Sequential(copy.deepcopy(layer))
    ways = {
        "fold": layer.fold(),
        "banded": layer.banded(),
        "inference": to_inference(net, sparse=True),
        "defocusify": defocusify(net),
        "state_dict": other.eval(),
        "float64": copy.deepcopy(layer).double().float(),
        "export": torch.export.export(layer, (x,), strict=False).module(),
    }
    for name, way in ways.items():
        torch.testing.assert_close(way(x), layer(x), rtol=1e-5, atol=1e-5, msg=name)
    assert "normalizer=mean, grid=index" in repr(layer)
    plain = make(mu=layer.mu.detach())
    plain.load_state_dict(layer.state_dict())
    assert (plain(x) - layer(x)).abs().max() > 0.1


@pytest.mark.parametrize("backend", ALL)
def test_non_contiguous_inputs_and_gradients(backend: str) -> None:
    layer = make(backend)
    views = [
        torch.randn(24, 6).t(),
        torch.randn(6, 48)[:, ::2],
        torch.randn(3, 24, 2).transpose(1, 2),
        torch.randn(1, 24).expand(6, 24),
    ]
    for view in views:
        assert not view.is_contiguous()
        found = []
        for x in (view, view.contiguous()):
            layer.zero_grad()
            y = layer(x)
            y.sum().backward()  # the gradient of a sum is expanded, of stride 0
            found.append((y.detach(), layer.weight.grad, layer.mu.grad))
        assert_same(found[0], found[1])


@pytest.mark.parametrize("backend", ALL)
def test_autocast(backend: str) -> None:
    layer, x = make(backend), torch.randn(5, 24)
    exact = layer(x)
    exact.square().sum().backward()
    gradients = {name: value.grad for name, value in layer.named_parameters()}
    layer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        layers = nn.Sequential(nn.Linear(24, 24), layer, nn.Linear(10, 1))
        assert layers(x).dtype == nn.Linear(24, 10)(x).dtype == y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), exact, rtol=0.05, atol=0.05)
    y.float().square().sum().backward()
    for name, value in layer.named_parameters():
        assert value.grad.dtype == torch.float32
        atol = 0.05 * gradients[name].abs().max().item()
        torch.testing.assert_close(value.grad, gradients[name], rtol=0.05, atol=atol)


@pytest.mark.parametrize("backend", ALL)
def test_autocast_leaves_float64_alone(backend: str) -> None:
    layer, x = make(backend, dtype=torch.float64), torch.randn(5, 24, dtype=torch.float64)
    exact = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.float64
    torch.testing.assert_close(y, exact)


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision(dtype: torch.dtype, backend: str) -> None:
    layer = make(backend).to(dtype)
    assert {value.dtype for value in layer.parameters()} == {dtype}
    assert layer.tau.dtype == torch.float32
    x = torch.randn(5, 24, dtype=dtype)
    y = layer(x)
    assert y.dtype == dtype
    exact = copy.deepcopy(layer).double()
    torch.testing.assert_close(y.double(), exact(x.double()), rtol=0.05, atol=0.05)
    y.sum().backward()
    exact(x.double()).sum().backward()
    for value, wanted in zip(layer.parameters(), exact.parameters(), strict=True):
        assert value.grad.dtype == dtype
        error = (value.grad.double() - wanted.grad).abs().max()
        assert error <= 0.05 * wanted.grad.abs().max()


@pytest.mark.parametrize(
    ("focus", "backend"), [*((focus, "auto") for focus in FOCI), ("gaussian", "numba_banded")]
)
def test_copies_are_equal_and_independent(focus: str, backend: str) -> None:
    layer, x = make(backend, focus=focus).eval(), torch.randn(5, 24)
    expected = layer(x).detach()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):  # noqa: S301
        assert torch.equal(twin(x), expected)
        nn.init.zeros_(twin.weight)
        twin.prune(1.0)
        twin.double()
        assert torch.equal(layer(x), expected)


def test_state_dict_is_safe_and_complete() -> None:
    layer, other = make(mu="random"), make()
    layer.prune(0.5)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert set(state) == {"weight", "bias", "mu", "sigma", "mask"}
    other.load_state_dict(state)
    x = torch.randn(5, 24)
    assert torch.equal(other(x), layer(x))
    assert set(make(bias=False).state_dict()) == {"weight", "mu", "sigma"}


@pytest.mark.parametrize("backend", ALL)
def test_double(backend: str) -> None:
    layer = make(backend, cutoff=1e-20)
    layer(torch.randn(2, 24))
    layer.double()
    other = make("reference", dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(5, 24).double()
    torch.testing.assert_close(layer(x), other(x), rtol=1e-12, atol=1e-12)


OPTIONS = [
    {},
    {"mu": "random", "sigma": (0.1, 0.2), "topology": (4, 6)},
    {"mu": 0.3, "sigma": torch.full((10,), 0.2), "init": "per_connection"},
    {"topology": torch.rand(24, 3), "mu": "center_jitter"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_meta_device(options: dict[str, Any]) -> None:
    with torch.device("meta"):
        inside = make(**options)
    for layer in (inside, make(device="meta", **options)):
        assert {t.device.type for t in (*layer.parameters(), layer.tau)} == {"meta"}
        repr(layer)
        layer.to_empty(device="cpu")
        layer.reset_parameters()
        expected = make(**options)
        assert torch.equal(layer.tau, expected.tau)
        layer.load_state_dict(expected.state_dict())
        x = torch.randn(5, 24)
        assert torch.equal(layer(x), expected(x))
    assert make(device="meta")(torch.empty(3, 24, device="meta")).shape == (3, 10)


@pytest.mark.parametrize("backend", ALL)
def test_vmap_over_stacked_parameters(backend: str) -> None:
    layers = [make(backend, mu="random", sigma=(0.05, 0.5)) for _ in range(3)]
    parameters, buffers = stack_module_state(layers)
    x, target = torch.randn(3, 5, 24), torch.randn(3, 5, 10)

    def loss(parameters: Any, buffers: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        y = functional_call(layers[0], (parameters, buffers), x)
        return (y - target).square().sum()

    losses = vmap(loss)(parameters, buffers, x, target)
    gradients = vmap(grad(loss))(parameters, buffers, x, target)
    assert set(gradients) == {"weight", "bias", "mu", "sigma"}
    for index, layer in enumerate(layers):
        expected = (layer(x[index]) - target[index]).square().sum()
        assert_same(losses[index], expected)
        expected.backward()
        for name, value in layer.named_parameters():
            torch.testing.assert_close(gradients[name][index], value.grad, rtol=1e-3, atol=1e-3)


def test_vmap_of_pruned_layers() -> None:
    layers = [make(mu="random") for _ in range(3)]
    for layer in layers:
        layer.prune(0.5)
    parameters, buffers = stack_module_state(layers)
    x = torch.randn(5, 24)
    found = vmap(lambda p, b: functional_call(layers[0], (p, b), x))(parameters, buffers)
    expected = torch.stack([layer(x) for layer in layers])
    assert_same(found, expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, on jvp
@pytest.mark.parametrize("backend", ALL)
def test_forward_mode_and_gradients_of_samples(backend: str) -> None:
    layer, x, direction = make(backend), torch.randn(5, 24), torch.randn(5, 24)
    _, tangent = jvp(layer, (x,), (direction,))
    assert_same(tangent, direction @ layer.effective_weight().T)
    parameters = dict(layer.named_parameters())
    per_sample = vmap(grad(lambda p, x: functional_call(layer, p, x).square().sum()), (None, 0))
    total = per_sample(parameters, x)["mu"].sum(0)
    layer(x).square().sum().backward()
    torch.testing.assert_close(total, layer.mu.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", ALL)
def test_inference_mode_and_accumulation(backend: str) -> None:
    layer, x = make(backend), torch.randn(6, 24)
    with torch.inference_mode():
        y = layer(x)
    assert_same(y, layer(x))
    layer(x).square().sum().backward()
    whole = layer.mu.grad.clone()
    layer.zero_grad()
    for part in x.split(2):
        layer(part).square().sum().backward()
    torch.testing.assert_close(layer.mu.grad, whole, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("context", [torch.inference_mode, lambda: torch.device("meta")])
def test_a_first_call_anywhere_does_no_harm(context: Any, backend: str) -> None:
    """A thread of its own has nothing that former calls may have left."""
    layer, x = FocusedLinear(200, 200, backend=backend), torch.randn(6, 200)

    def work() -> tuple[torch.Tensor, torch.Tensor]:
        with context():
            first = layer(x)
        y = layer(x)
        y.sum().backward()
        return first, y.detach()

    with ThreadPoolExecutor(1) as pool:
        first, y = pool.submit(work).result()
    assert first.device.type == "cpu"
    assert_same(first, y)
    assert layer.mu.grad.isfinite().all()


def test_threads_do_not_disturb_each_other() -> None:
    layers = [FocusedLinear(200, 200, sigma=0.05, mu="random") for _ in range(4)]
    x = torch.randn(6, 200)
    with torch.no_grad():
        expected = [layer(x) for layer in layers]
        with ThreadPoolExecutor(4) as pool:
            for _ in range(20):
                found = list(pool.map(lambda layer: layer(x), layers))
    assert_same(found, expected)


@pytest.mark.parametrize("backend", ALL)
def test_learns_inside_a_network(backend: str) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(make(backend), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 1))
    x = torch.randn(64, 24)
    target = x[:, 3:6].sum(1, keepdim=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (network(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        network[0].constrain_()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize("backend", ALL)
def test_second_derivatives(backend: str) -> None:
    """Also where weights are computed from the input, which must not count twice."""
    found = []
    for name in ("reference", backend):
        torch.manual_seed(0)
        layer, x = make(name, dtype=torch.float64), torch.randn(3, 24, dtype=torch.float64)
        layer.prune(0.3)
        x.requires_grad_()
        weights = {"weight": layer.weight * x.mean()}
        loss = functional_call(layer, weights, x).square().sum()
        inputs = [x, layer.bias, layer.mu, layer.sigma]
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        total = sum(gradient.square().sum() for gradient in first)
        found.append([*first, *torch.autograd.grad(total, [layer.weight, *inputs])])
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_of_the_input_alone(backend: str) -> None:
    layer = make(backend).requires_grad_(False)
    x = torch.randn(3, 24, requires_grad=True)
    (first,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first[0, 0], x)
    weight = layer.effective_weight()
    assert_same(second[0], 2 * weight.T[0] @ weight)


LARGE = {"in_features": 300, "out_features": 200}


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_may_be_replaced_by_others_of_another_shape(backend: str) -> None:
    for before, after in ((200, 400), (400, 200), (1, 20)):
        layer = FocusedLinear(300, before, sigma=0.02, backend=backend)
        x = torch.randn(4, 300)
        layer(x)
        new = FocusedLinear(300, after, sigma=0.02, backend=backend)
        for name, value in new.named_parameters():
            setattr(layer, name, nn.Parameter(value.detach().clone()))
        assert_same(layer(x), new(x))
        layer.sigma = nn.Parameter(layer.sigma[:1].detach())  # one for all
        assert_same(layer(x), new(x))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("width", [23, 25, 48])
def test_inputs_of_a_wrong_width_are_refused(width: int, backend: str) -> None:
    for layer in (make(backend), FocusedLinear(24, 2000, sigma=0.02, backend=backend)):
        layer(torch.ones(2, 24))
        with pytest.raises(RuntimeError, match=r"shape|size"):
            layer(torch.ones(2, width))


def test_checkpoints_that_save_products() -> None:
    def policy(_: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        saved = op == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    for sigma in (0.02, 0.3):
        layer = FocusedLinear(**LARGE, sigma=sigma)
        x = torch.randn(4, 300, requires_grad=True)
        expected = torch.autograd.grad(layer(x).square().sum(), layer.mu)[0]
        y = checkpoint(
            layer,
            x,
            use_reentrant=False,
            context_fn=lambda: create_selective_checkpoint_contexts(policy),
        )
        assert_same(torch.autograd.grad(y.square().sum(), layer.mu)[0], expected)
