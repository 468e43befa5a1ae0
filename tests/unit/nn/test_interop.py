"""A FocusedLinear works wherever nn.Linear does."""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, stack_module_state, vmap
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from focusing import AnchoredLinear, FocusedLinear, defocusify
from focusing.nn import to_inference
from tests.unit.nn.oracle import BACKENDS, FOCI, assert_same

every_backend = pytest.mark.parametrize("backend", ["auto", *BACKENDS])


def make(backend: str = "auto", **options: Any) -> FocusedLinear:
    return FocusedLinear(24, 10, **{"sigma": 0.1, "backend": backend, **options})


@every_backend
def test_any_leading_dimensions_and_strides(backend: str) -> None:
    layer = make(backend)
    shapes = [(24,), (0, 24), (5, 24), (2, 0, 24), (2, 3, 4, 24)]
    inputs = [torch.randn(shape) for shape in shapes]
    inputs += [torch.randn(24, 6).t(), torch.randn(6, 48)[:, ::2], torch.randn(1, 24).expand(6, 24)]
    for x in [*inputs, torch.randn(3, 24, 2).transpose(1, 2)]:
        layer.zero_grad()
        x.requires_grad_()
        y = layer(x)
        assert y.shape == (*x.shape[:-1], 10)
        assert_same(y, nn.functional.linear(x, layer.effective_weight(), layer.bias))
        (gradient,) = torch.autograd.grad(y.sum(), x, retain_graph=True)  # expanded, of stride 0
        assert_same(gradient, layer.effective_weight().sum(0).expand(x.shape))
        y.sum().backward()
        assert all(value.grad.isfinite().all() for value in layer.parameters())


VARIANTS: dict[str, Callable[[], FocusedLinear]] = {
    "another normaliser and grid": lambda: make(normalizer="mean", grid="index", mu="random"),
    "fields": lambda: FocusedLinear(24, 12, topology=(4, 6), units_per_focus=4, sigma=0.3),
    "anchored": lambda: AnchoredLinear(24, 10, topology=(4, 6), taps=5, sigma=0.3),
}


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_converted_layers_give_the_same_outputs(name: str, pruned: bool) -> None:
    layer, other, x = VARIANTS[name]().eval(), VARIANTS[name](), torch.randn(5, 24)
    if pruned:
        assert 0 < layer.prune(1.0) < 1
    other.load_state_dict(layer.state_dict())
    net = nn.Sequential(copy.deepcopy(layer))
    forms = {
        "fold": layer.fold(),
        "banded": layer.banded(),
        "inference": to_inference(net, sparse=True),
        "defocusify": defocusify(net),
        "state_dict": other.eval(),
        "float64": copy.deepcopy(layer).double().float(),
        "export": torch.export.export(layer, (x,), strict=False).module(),
    }
    for form, function in forms.items():
        torch.testing.assert_close(function(x), layer(x), rtol=1e-5, atol=1e-5, msg=form)


@every_backend
def test_autocast(backend: str) -> None:
    layer, x = make(backend), torch.randn(5, 24)
    exact = layer(x)
    exact.square().sum().backward()
    gradients = {name: value.grad for name, value in layer.named_parameters()}
    layer.zero_grad()
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        y = layer(x)
        layers = nn.Sequential(nn.Linear(24, 24), layer, nn.Linear(10, 1))
        assert layers(x).dtype == nn.Linear(24, 10)(x).dtype == y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), exact, rtol=0.05, atol=0.05)
    y.float().square().sum().backward()
    for name, value in layer.named_parameters():
        assert value.grad.dtype == torch.float32
        atol = 0.05 * gradients[name].abs().max().item()
        torch.testing.assert_close(value.grad, gradients[name], rtol=0.05, atol=atol)
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        y = layer.double()(x.double())  # autocast leaves float64 alone
    assert y.dtype == torch.float64
    assert_same(y.float(), exact)


@every_backend
def test_backward_in_autocast_of_a_layer_outside(backend: str) -> None:
    layer, x = make(backend), torch.randn(5, 24)
    kind = torch.get_default_device().type
    layer(x).square().sum().backward()
    expected = {name: value.grad for name, value in layer.named_parameters()}
    layer.zero_grad()
    with torch.autocast(kind, torch.bfloat16):
        with torch.autocast(kind, enabled=False):
            y = layer(x)
        y.square().sum().backward()
    for name, value in layer.named_parameters():
        atol = 0.05 * expected[name].abs().max().item()
        torch.testing.assert_close(value.grad, expected[name], rtol=0.05, atol=atol)


@every_backend
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision(dtype: torch.dtype, backend: str) -> None:
    layer = make(backend).to(dtype)
    x = torch.randn(5, 24, dtype=dtype)
    y = layer(x)
    assert y.dtype == dtype
    exact = copy.deepcopy(layer).double()
    torch.testing.assert_close(y.double(), exact(x.double()), rtol=0.05, atol=0.05)
    y.sum().backward()
    exact(x.double()).sum().backward()
    for value, expected in zip(layer.parameters(), exact.parameters(), strict=True):
        assert value.grad.dtype == dtype
        error = (value.grad.double() - expected.grad).abs().max()
        assert error <= 0.05 * expected.grad.abs().max()


@pytest.mark.parametrize("focus", FOCI)
def test_copies_are_equal_and_independent(focus: str) -> None:
    layer, x = make(focus=focus).eval(), torch.randn(5, 24)
    expected = layer(x).detach()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):  # noqa: S301
        assert torch.equal(twin(x), expected)
        nn.init.zeros_(twin.weight)
        twin.prune(1.0)
        twin.double()
        assert torch.equal(layer(x), expected)


@pytest.mark.parametrize("banded", [False, True])
def test_copies_of_compiled_layers_are_independent(banded: bool) -> None:
    layer: nn.Module = make().banded() if banded else make()
    layer.compile(backend="eager")
    x = torch.randn(5, 24)
    expected = layer(x)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):  # noqa: S301
        assert_same(twin(x), expected)
        with torch.no_grad():
            for values in filter(torch.is_floating_point, twin.state_dict().values()):
                values.mul_(0.5)
        assert (twin(x) - expected).abs().max() > 0.1


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
        assert layer(torch.empty(3, 24, device="meta")).shape == (3, 10)
        layer.to_empty(device=torch.get_default_device())
        layer.reset_parameters()
        expected, x = make(**options), torch.randn(5, 24)
        assert torch.equal(layer.tau, expected.tau)
        layer.load_state_dict(expected.state_dict())
        assert torch.equal(layer(x), expected(x))
    with torch.device("meta"):
        inside = make(**options)
    inside.load_state_dict(expected.state_dict(), assign=True)
    assert torch.equal(inside(x), expected(x))
    inside.load_state_dict(copy.deepcopy(expected).double().state_dict(), assign=True)
    assert_same(inside(x.double()).float(), expected(x))


@pytest.mark.parametrize("pruned", [False, True])
@every_backend
def test_vmap_over_stacked_parameters(backend: str, pruned: bool) -> None:
    layers = [make(backend, mu="random", sigma=(0.05, 0.5)) for _ in range(3)]
    if pruned:
        for layer in layers:
            layer.prune(0.5)
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


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, on jvp
@every_backend
def test_forward_mode_and_per_sample_gradients(backend: str) -> None:
    layer, x, direction = make(backend), torch.randn(5, 24), torch.randn(5, 24)
    _, tangent = jvp(layer, (x,), (direction,))
    assert_same(tangent, direction @ layer.effective_weight().T)
    with forward_ad.dual_level():
        y = layer(forward_ad.make_dual(x, direction))
        assert_same(forward_ad.unpack_dual(y).tangent, tangent)
    parameters = dict(layer.named_parameters())
    per_sample = vmap(grad(lambda p, x: functional_call(layer, p, x).square().sum()), (None, 0))
    total = per_sample(parameters, x)["mu"].sum(0)
    for sample in x.split(2):  # gradients accumulate
        layer(sample).square().sum().backward()
    torch.testing.assert_close(total, layer.mu.grad, rtol=1e-3, atol=1e-3)


@every_backend
@pytest.mark.parametrize("context", [torch.inference_mode, lambda: torch.device("meta")])
def test_first_call_in_another_context(context: Any, backend: str) -> None:
    """In a new thread, without the workspaces of earlier calls."""
    layer, x = FocusedLinear(200, 200, backend=backend), torch.randn(6, 200)

    def work() -> tuple[torch.Tensor, torch.Tensor]:
        with context():
            first = layer(x)
        y = layer(x)
        y.sum().backward()
        return first, y.detach()

    with ThreadPoolExecutor(1) as pool:
        first, y = pool.submit(work).result()
    assert first.device == x.device
    assert_same(first, y)
    assert layer.mu.grad.isfinite().all()


@every_backend
def test_second_derivatives(backend: str) -> None:
    """Also where weights depend on the input, whose gradient must not be counted twice."""
    results = []
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
        results.append([*first, *torch.autograd.grad(total, [layer.weight, *inputs])])
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-9)
    frozen = make(backend).requires_grad_(False)  # only the input has a gradient
    x = torch.randn(3, 24, requires_grad=True)
    (gradient,) = torch.autograd.grad(frozen(x).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient[0, 0], x)
    weight = frozen.effective_weight()
    assert_same(second[0], 2 * weight.T[0] @ weight)


@every_backend
def test_parameters_may_be_replaced_with_another_shape(backend: str) -> None:
    for before, after in ((200, 400), (400, 200), (1, 20)):
        layer = FocusedLinear(300, before, sigma=0.02, backend=backend)
        x = torch.randn(4, 300)
        layer(x)
        new = FocusedLinear(300, after, sigma=0.02, backend=backend)
        for name, value in new.named_parameters():
            setattr(layer, name, nn.Parameter(value.detach().clone()))
        assert_same(layer(x), new(x))
        layer.sigma = nn.Parameter(layer.sigma[:1].detach())  # broadcast
        assert_same(layer(x), new(x))


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_selective_checkpointing(sigma: float) -> None:
    def policy(_: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        saved = op == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    layer = FocusedLinear(300, 200, sigma=sigma)
    x = torch.randn(4, 300, requires_grad=True)
    expected = torch.autograd.grad(layer(x).square().sum(), layer.mu)[0]
    contexts: Any = {"context_fn": lambda: create_selective_checkpoint_contexts(policy)}
    y = checkpoint(layer, x, use_reentrant=False, **contexts)
    assert_same(torch.autograd.grad(y.square().sum(), layer.mu)[0], expected)
