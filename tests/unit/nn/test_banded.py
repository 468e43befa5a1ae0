"""BandedLinear: the same outputs as the focused layer, autotuning, and changes of weights."""

import copy
import io
import json
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from focusing import BandedLinear, FocusedLinear
from focusing.nn.sparse.banded import Dense
from focusing.nn.sparse.blocks import Blocks
from tests.unit.nn.oracle import assert_same

PRODUCTS = {"dense": Dense, "blocks": Blocks, "threaded": partial, "tiles": types.MethodType}


@pytest.fixture(params=["blocks"], autouse=True)
def fastest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make autotuning select this product."""
    kind = PRODUCTS[request.param]
    monkeypatch.setattr(
        "focusing.nn.sparse.banded._seconds",
        lambda product, _: 1.0 if isinstance(product, kind) else 2.0,
    )
    if request.param == "threaded":
        monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    return str(request.param)


every_product = pytest.mark.parametrize("fastest", ["dense", "blocks", "threaded"], indirect=True)


def pruned_layer(threshold: float = 1.0, **options: Any) -> FocusedLinear:
    layer = FocusedLinear(400, 800, **{"mu": "random", "sigma": 0.05, **options}).eval()
    if layer.bias is not None:
        torch.nn.init.normal_(layer.bias)
    layer.prune(threshold)
    return layer


def make_banded() -> BandedLinear:
    torch.manual_seed(0)
    return pruned_layer().banded()


def doubled(banded: BandedLinear) -> dict[str, torch.Tensor]:
    state = banded.state_dict()
    return {name: 2 * v if v.is_floating_point() else v for name, v in state.items()}


@every_product
@pytest.mark.parametrize("topology", [None, (10, 12), "unsorted"])
@pytest.mark.parametrize("neurons", [1, 37, 300])
def test_matches_the_focused_layer(neurons: int, topology: Any) -> None:
    positions = torch.rand(120, 1) if topology == "unsorted" else topology
    for threshold, bias in ((0.0, True), (0.8, False), (3.0, True)):
        layer = FocusedLinear(
            120, neurons, bias, topology=positions, mu="random", sigma=(0.01, 0.3)
        ).eval()
        if bias:
            torch.nn.init.normal_(layer.bias)
        layer.prune(threshold)
        x, banded = torch.randn(6, 120), layer.banded()
        expected = layer(x)
        torch.nn.init.zeros_(layer.weight)  # the banded layer has a copy
        assert_same(banded(x), expected)
        assert not banded.training
        for shape in ((120,), (0, 120), (2, 3, 1, 120)):
            y = banded(torch.ones(shape))
            assert y.shape == (*shape[:-1], neurons)
        assert not any(value.requires_grad for value in banded.state_dict().values())


def test_neurons_without_inputs() -> None:
    weight, bias, x = torch.zeros(250, 64), torch.randn(250), torch.randn(3, 64)
    empty = BandedLinear(weight, bias)
    assert torch.equal(empty(x), bias.expand(3, 250))
    assert empty.work == 0
    weight[::5, 7:30] = torch.randn(50, 23)
    assert_same(BandedLinear(weight)(x), x @ weight.T)


def test_work_follows_sparsity() -> None:
    wide, narrow = FocusedLinear(784, 800, sigma=0.5), FocusedLinear(784, 800, sigma=0.025)
    shuffled = FocusedLinear(784, 800, sigma=0.025, mu=narrow.foci.mu[torch.randperm(800)])
    works = [layer.banded().work for layer in (wide, narrow, shuffled)]
    assert works[0] == 1
    assert works[1] < 0.4
    assert works[2] == pytest.approx(works[1], rel=0.05)
    narrow.prune(1.0)
    banded = narrow.banded()
    assert banded.work < 0.2
    stored = sum(value.numel() for name, value in banded.state_dict().items() if "weight" in name)
    assert stored / narrow.weight.numel() == pytest.approx(banded.work)
    facts = f"bias=True, tiles={len(banded.sizes)}, work={banded.work:.3f}"
    assert f"in_features=784, out_features=800, {facts}" in repr(banded)


def test_images_are_cut_into_patches() -> None:
    layer = FocusedLinear(3600, 800, topology=(60, 60), sigma=0.1).eval()
    layer.prune(2.5)
    banded = layer.banded()
    on_a_line = BandedLinear(layer.effective_weight(), layer.bias)
    assert any(name.startswith("columns") for name, _ in banded.named_buffers())
    assert banded.work < 0.2 < on_a_line.work
    x = torch.randn(2, 3600)
    for samples in (x, x.repeat(40, 1)):
        assert_same(banded(samples), layer(samples))


@every_product
@pytest.mark.parametrize("samples", [0, 1, 40, 600])
def test_the_fastest_product_is_kept(samples: int, fastest: str) -> None:
    layer = pruned_layer(topology=(20, 20))
    banded, x = layer.banded(), torch.randn(samples, 400)
    size = len(banded.state_dict())
    for _ in range(2):
        with torch.inference_mode():
            assert_same(banded(x), layer(x))
    assert [type(product) for product in banded._tuned().products.values()] == (
        [PRODUCTS[fastest]] if samples else []
    )
    with_grad = x.clone().requires_grad_()
    banded(with_grad).sum().backward()  # after autotuning without gradients
    assert_same(with_grad.grad, layer.effective_weight().sum(0).expand(samples, 400))
    assert len(banded.state_dict()) == size
    banded.load_state_dict(doubled(banded))
    assert_same(banded(x), 2 * layer(x))
    assert_same(banded.double()(x.double()).float(), 2 * layer(x))


@pytest.mark.parametrize("fastest", ["tiles", "dense"], indirect=True)
@pytest.mark.parametrize("samples", [1, 50])
def test_float64_uses_tiles(samples: int, fastest: str) -> None:
    banded, x = make_banded(), torch.randn(samples, 400, dtype=torch.float64)
    weight, bias = banded._dense()
    expected = torch.nn.functional.linear(x, weight.double(), bias.double())
    torch.testing.assert_close(banded.double()(x), expected)
    assert [type(product) for product in banded._tuned().products.values()] == [PRODUCTS[fastest]]


@every_product
def test_weights_and_biases_may_change(fastest: str) -> None:
    banded, x = make_banded(), torch.randn(4, 400)
    before = banded(x)
    assert_same(torch.func.functional_call(banded, doubled(banded), x), 2 * before)
    assert_same(banded(x), before)
    with torch.no_grad():
        for value in banded.buffers():
            if value.is_floating_point():
                value.mul_(2)
    assert_same(banded(x), 2 * before)
    assert banded.bias is not None
    banded.bias.add_(1)
    assert_same(banded(x), 2 * before + 1)
    banded.bias = banded.bias + 1
    assert_same(banded(x), 2 * before + 2)


def test_weights_may_change_while_another_thread_times_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    banded, x = make_banded(), torch.randn(4, 400)
    began, go_on = threading.Event(), threading.Event()

    def seconds(product: Any, _: Any) -> float:
        if threading.current_thread() is late:
            began.set()
            go_on.wait()
        return 1.0 if isinstance(product, Blocks) else 2.0

    monkeypatch.setattr("focusing.nn.sparse.banded._seconds", seconds)
    late = threading.Thread(target=banded, args=(x,))
    late.start()
    assert began.wait(60)
    banded.load_state_dict(doubled(banded))
    expected = banded(x)
    go_on.set()
    late.join()
    assert torch.equal(banded(x), expected)


def test_weights_created_in_inference_mode_may_change() -> None:
    with torch.inference_mode():
        banded, x = make_banded(), torch.randn(4, 400)
        before = banded(x)
        banded.load_state_dict(doubled(banded))
        assert_same(banded(x), 2 * before)
        banded.to(torch.float64).to(torch.float32)  # makes inference tensors, without versions
        again = banded(x)
        banded.load_state_dict(doubled(banded))
        assert_same(banded(x), 2 * again)


@every_product
def test_gradients_of_weights(fastest: str) -> None:
    banded, x = make_banded(), torch.randn(4, 400)
    expected = banded(x)
    assert banded.bias is not None
    banded.bias.requires_grad_()
    banded(x).sum().backward()
    assert torch.equal(banded.bias.grad, torch.full((800,), 4.0))
    with torch.no_grad():
        assert not banded(x).requires_grad
        wanting = {
            name: value.clone().requires_grad_() if value.is_floating_point() else value
            for name, value in make_banded().state_dict().items()
        }
        assert_same(torch.func.functional_call(make_banded(), wanting, x), expected)


class Subclass(torch.Tensor):
    """A user's subclass."""


@every_product
@pytest.mark.parametrize("kind", ["negated", "zero", "subclass", "sparse", "strided", "expanded"])
def test_unusual_inputs(kind: str, fastest: str) -> None:
    banded, x = make_banded(), torch.randn(40, 400)
    unusual = {
        "negated": torch.complex(x, x).conj().imag,
        "zero": torch._efficientzerotensor(40, 400),
        "subclass": x.as_subclass(Subclass),
        "sparse": x.to_sparse(),
        "strided": torch.randn(80, 800)[::2, ::2],
        "expanded": torch.randn(1, 400).expand(40, 400),
    }[kind]
    banded(x)
    if kind == "sparse":
        with pytest.raises(NotImplementedError):
            banded(unusual)
        return
    plain = unusual.resolve_neg().as_subclass(torch.Tensor).clone()
    y = banded(unusual)
    assert type(y) is type(unusual)
    assert_same(y.as_subclass(torch.Tensor), torch.nn.functional.linear(plain, *banded._dense()))


@every_product
def test_dtypes_and_devices(fastest: str) -> None:
    banded, x = make_banded(), torch.randn(4, 400)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            assert banded(x).dtype == torch.bfloat16
        banded(x)
    for dtype in (torch.float64, torch.int64, torch.bool, torch.bfloat16):
        with pytest.raises(RuntimeError, match="dtype"):
            banded(x.to(dtype))
    assert banded.to("meta")(torch.empty(40, 400, device="meta")).shape == (40, 800)


@pytest.mark.parametrize("neurons", [4, 400])
def test_inputs_of_another_width_are_refused(neurons: int) -> None:
    layer = FocusedLinear(784, neurons, sigma=0.02)
    layer.prune(1.0)
    banded = BandedLinear(layer.fold().weight)
    for shape in ((2, 783), (2, 785), (4, 392), (785,)):
        with pytest.raises(ValueError, match=r"^BandedLinear expects inputs \(\*, 784\), not \("):
            banded(torch.randn(*shape))


def test_every_number_of_samples_and_threads_is_timed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer, tried = make_banded(), []
    original = layer._candidates
    monkeypatch.setattr(
        layer, "_candidates", lambda tuned, x, n: tried.append((len(x), n)) or original(tuned, x, n)
    )
    for threads, samples in ((1, (1, 1, 5, 6, 512, 700, 2048, 4000)), (2, (64, 64)), (3, (64,))):
        monkeypatch.setattr("torch.get_num_threads", lambda threads=threads: threads)
        for number in samples:
            layer(torch.randn(number, 400))
    assert tried == [(1, 1), (5, 1), (512, 1), (2048, 1), (64, 2), (64, 3)]


@every_product
@pytest.mark.parametrize("samples", [1, 64])
def test_dispatch_modes_and_tracers_see_tiles(samples: int, fastest: str) -> None:
    banded, x, other = make_banded(), torch.randn(samples, 400), torch.randn(samples, 400)
    for _ in range(2):
        with FlopCounterMode(display=False) as counter:
            banded(x)
        assert counter.get_total_flops() == round(2 * samples * 400 * 800 * banded.work)
        assert banded._autotune is None or banded._autotune.products
        banded(x)
    assert_same(make_fx(banded)(x)(other), banded(other))


@pytest.mark.parametrize("fastest", ["dense", "threaded"], indirect=True)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_deterministic_mode_does_not_time(dtype: torch.dtype, fastest: str) -> None:
    banded = make_banded().to(dtype)
    for samples in (1, 64):
        x = torch.randn(samples, 400, dtype=dtype)
        torch.use_deterministic_algorithms(False)
        banded(x)
        torch.use_deterministic_algorithms(True)
        single = dtype == torch.float32
        expected = Blocks(*banded._dense())(x) if single else banded._by_tiles(x)
        assert torch.equal(banded(x), expected)


def test_copies_and_files() -> None:
    banded, x = make_banded(), torch.randn(64, 400)
    expected, blocks = banded(x), banded._tuned().blocks
    twin = copy.deepcopy(banded)
    assert twin._autotune is None
    with pytest.raises(TypeError, match="Blocks hold addresses"):
        copy.deepcopy(blocks)
    file = io.BytesIO()
    torch.save(banded.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    tiles = json.loads(json.dumps(banded.tiles))
    rebuilt = BandedLinear.from_tiles(400, tiles, state)
    assert repr(rebuilt) == repr(banded)
    exported = torch.export.export(banded.eval(), (x,)).module()
    del banded, blocks  # copies must not depend on the original
    assert torch.equal(twin(x), expected)
    assert torch.equal(rebuilt(x), expected)
    assert_same(exported(x), expected)


@pytest.mark.parametrize("topology", [None, (20, 20)])
def test_outputs_in_the_order_of_the_tiles(topology: Any) -> None:
    layer, x = pruned_layer(topology=topology), torch.randn(3, 400)
    banded = BandedLinear(layer.effective_weight(), layer.bias, positions=layer.tau, restore=False)
    assert banded.order is not None
    assert_same(banded(x), layer(x)[:, banded.order])


@pytest.mark.parametrize("samples", [1, 64, 65])
def test_results_share_no_memory(samples: int) -> None:
    layer = FocusedLinear(784, 200, bias=False, sigma=0.01).eval()
    banded = layer.banded()
    assert len(banded.sizes) > 1
    first, second = torch.randn(2, samples, 784)
    with torch.inference_mode():
        y = banded(first)
        kept = y.clone()
        banded(second)
        assert torch.equal(y, kept)
    with torch.no_grad():  # reuses memory that was allocated in inference mode
        assert_same(banded(second), layer(second))
    inputs = [torch.randn(samples, 784) for _ in range(16)]
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda x: [banded(x) for _ in range(20)][-1], inputs))
    for x, y in zip(inputs, outputs, strict=True):
        assert_same(y, layer(x))
