"""Products by oneDNN: as those of torch, for layers that stay torch's own."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx, nn

from focusing.models import CNN, MLP
from focusing.nn import FocusedLinear
from focusing.nn.ops import matmul

SIZES = [(512, 64, 128), (96, 300, 200), (7, 500, 800)]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda matrix: matrix,
    "columns": lambda matrix: matrix.t().contiguous().t(),
    "a part": lambda matrix: nn.functional.pad(matrix, (3, 5, 1, 1))[1:-1, 3:-5],
    "one row, repeated": lambda matrix: matrix[:1].expand_as(matrix),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Use oneDNN on any processor whose torch has both libraries; notes the operands' shapes."""
    onednn = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    if not both or onednn is None:
        pytest.skip("this build of torch lacks MKL or oneDNN, so it is never used in MKL's place")
    shapes: list[tuple[int, ...]] = []

    def noted(x: Tensor, weight: Tensor, *options: object) -> Tensor:
        shapes.append((*x.shape, len(weight)))
        assert weight.is_contiguous() or weight.t().is_contiguous()  # others take very long
        return onednn(x, weight, *options)  # type: ignore[no-any-return]

    monkeypatch.setattr(matmul, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", noted)
    return shapes


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_products_of_any_layout(
    calls: list[tuple[int, ...]], size: tuple[int, int, int], first: str, second: str
) -> None:
    rows, inner, columns = size
    a = LAYOUTS[first](torch.randn(rows, inner))
    b = LAYOUTS[second](torch.randn(inner, columns))
    torch.testing.assert_close(matmul.mm(a, b), torch.mm(a, b), rtol=1e-4, atol=1e-3)
    out, total = torch.randn(rows, columns + 4)[:, 2:-2], torch.randn(rows, columns)
    assert matmul.mm(a, b, out=out) is out
    torch.testing.assert_close(out, torch.mm(a, b), rtol=1e-4, atol=1e-3)
    expected = torch.addmm(total, a, b)
    assert matmul.addmm_(total, a, b) is total
    torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-3)
    assert calls == [size] * 3


def test_layers_have_the_gradients_of_torch(calls: list[tuple[int, ...]]) -> None:
    layer, x = nn.Linear(300, 200), torch.randn(96, 300, requires_grad=True)
    leaves = [x, *layer.parameters()]
    results = []
    for call in (matmul.call_layer, nn.Linear.__call__):
        y = call(layer, x)
        first = torch.autograd.grad((y**3).sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum((grad**2).sum() for grad in first), leaves)
        results.append([y, *first, *second])
        assert y.shape == (96, 200)
        assert first[1].is_contiguous()  # as the weight, else autograd would copy it
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3 * theirs.abs().max().item())
    assert calls[0] == (96, 300, 200)
    assert len(calls) > 6


@pytest.mark.parametrize("backend", ["numba", "numba_banded"])
def test_focused_layers_have_the_gradients_of_the_reference(
    calls: list[tuple[int, ...]], backend: str
) -> None:
    pytest.importorskip("numba")
    results = []
    for engine in (backend, "reference"):
        torch.manual_seed(0)
        layer = FocusedLinear(600, 400, sigma=0.05, backend=engine)
        x = torch.randn(128, 600, requires_grad=True)
        y = layer(x)
        (y**2).sum().backward()
        results.append([y, x.grad, layer.weight.grad, layer.mu.grad, layer.sigma.grad])
    assert len(calls) >= 3
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3 * theirs.abs().max().item())


@pytest.mark.parametrize("build", [lambda: MLP(400, 10, [300]), lambda: CNN((28, 28, 1), 10)])
def test_networks_use_them(
    calls: list[tuple[int, ...]], build: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = build()
    x = torch.rand(64, *net.shape)
    with torch.no_grad():
        ours = net.eval()(x)
        assert len(calls) == 1  # the output layer is small
        monkeypatch.setattr(matmul, "onednn_is_faster", lambda: False)
        torch.testing.assert_close(ours, net(x), rtol=1e-4, atol=1e-4)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Linear(300, 200), torch.randn(4, 300)),
        (nn.Linear(300, 200), torch.randn(8, 32, 300)),
        (nn.Linear(300, 200).double(), torch.randn(96, 300).double()),
        (nn.ReLU(), torch.randn(96, 300)),
    ],
    ids=["small", "3-D", "float64", "no linear layer"],
)
def test_elsewhere_they_are_those_of_torch(
    calls: list[tuple[int, ...]], layer: nn.Module, x: Tensor
) -> None:
    assert torch.equal(matmul.call_layer(layer, x), layer(x))
    assert calls == []


def test_hooks_autocast_and_wrong_shapes_are_left_to_torch(calls: list[tuple[int, ...]]) -> None:
    layer, x = nn.Linear(300, 200), torch.randn(96, 300)
    with torch.autocast("cpu", torch.bfloat16):
        assert matmul.call_layer(layer, x).dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        matmul.call_layer(layer, torch.randn(96, 301))
    seen: list[str] = []
    hooks = [
        layer.register_forward_hook(lambda *_: seen.append("forward")),
        layer.register_full_backward_hook(lambda *_: seen.append("backward")),
    ]
    for hook in hooks:
        matmul.call_layer(layer, x.requires_grad_()).sum().backward()
        hook.remove()
    assert (seen, calls) == (["forward", "backward", "backward"], [])


def test_networks_are_traced_and_compiled_as_before(calls: list[tuple[int, ...]]) -> None:
    net, x = MLP(300, 10, [200]).eval(), torch.randn(96, 300)
    kinds = [node.op for node in fx.symbolic_trace(net).graph.nodes]
    assert kinds == ["placeholder", *["call_module"] * 5, "output"]
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        output = compiled(x)
        assert calls == []
        torch.testing.assert_close(output, net(x), rtol=1e-4, atol=1e-4)
    assert len(calls) == 1


def test_the_choice_follows_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = matmul.onednn_is_faster.__wrapped__
    monkeypatch.setattr(matmul.Path, "read_text", lambda _: "vendor_id\t: GenuineIntel\n")
    assert not choose()
    monkeypatch.setattr(matmul.Path, "read_text", lambda _: "vendor_id\t: AuthenticAMD\n")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not choose()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    assert choose() == both
