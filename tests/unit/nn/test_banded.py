"""The inference module that computes only what is left."""

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
from tests.unit.nn.oracle import FOCI, assert_same

WAYS = {"dense": Dense, "blocks": Blocks, "shared": partial, "tiles": types.MethodType}


@pytest.fixture(params=["blocks"], autouse=True)
def fastest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which product is found to be the fastest one."""
    wanted = WAYS[request.param]
    monkeypatch.setattr(
        "focusing.nn.sparse.banded._seconds", lambda way, _: 1.0 if isinstance(way, wanted) else 2.0
    )
    if request.param == "shared":
        monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    return str(request.param)


every_way = pytest.mark.parametrize("fastest", ["dense", "blocks", "shared"], indirect=True)


@every_way
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("threshold", [None, 0.8, 3.0])
@pytest.mark.parametrize("topology", [None, (10, 12), "unsorted"])
@pytest.mark.parametrize("neurons", [1, 37, 300])
def test_equals_the_layer(neurons: int, topology: Any, threshold: float | None, bias: bool) -> None:
    torch.manual_seed(0)
    given = torch.rand(120, 1) if topology == "unsorted" else topology
    layer = FocusedLinear(120, neurons, bias, topology=given, mu="random", sigma=(0.01, 0.3)).eval()
    if bias:
        torch.nn.init.normal_(layer.bias)
    if threshold is not None:
        layer.prune(threshold)
    x = torch.randn(6, 120)
    banded = layer.banded()
    assert isinstance(banded, BandedLinear)
    assert_same(banded(x), layer(x))
    assert not any(value.requires_grad for value in banded.state_dict().values())


@pytest.mark.parametrize("focus", FOCI)
def test_any_focus(focus: str) -> None:
    layer = FocusedLinear(60, 20, focus=focus, sigma=0.05).eval()
    x = torch.randn(4, 60)
    assert_same(layer.banded()(x), layer(x))


def test_with_empty_rows_and_empty_tiles() -> None:
    weight = torch.zeros(250, 64)
    weight[::5, 7:30] = torch.randn(50, 23)
    x = torch.randn(3, 64)
    assert_same(BandedLinear(weight)(x), x @ weight.T)
    bias = torch.randn(250)
    nothing = BandedLinear(torch.zeros(250, 64), bias)
    assert torch.equal(nothing(x), bias.expand(3, 250))
    assert nothing.work == 0


def test_pruned_away_neurons() -> None:
    layer = FocusedLinear(64, 40, sigma=0.1).eval()
    with torch.no_grad():
        layer.sigma[::3] = 1.0
    layer.prune(1.5)
    assert (layer.phi() == 0).all(1).any()
    x = torch.randn(3, 64)
    assert_same(layer.banded()(x), layer(x))


def test_computes_only_what_is_left() -> None:
    wide, narrow = FocusedLinear(784, 800, sigma=0.5), FocusedLinear(784, 800, sigma=0.025)
    works = [wide.banded().work, narrow.banded().work]
    narrow.prune(1.0)
    works.append(narrow.banded().work)
    assert works[0] == 1
    assert works[1] < 0.4
    assert works[2] < 0.2
    banded = narrow.banded()
    stored = sum(value.numel() for name, value in banded.state_dict().items() if "weight" in name)
    assert stored / narrow.weight.numel() == pytest.approx(banded.work)


def test_unsorted_neurons_cost_no_more() -> None:
    torch.manual_seed(0)
    ordered = FocusedLinear(784, 800)
    shuffled = FocusedLinear(784, 800, mu=ordered.foci.mu[torch.randperm(800)])
    assert shuffled.banded().work == pytest.approx(ordered.banded().work, rel=0.05)


def test_inputs_that_no_neuron_needs_do_not_matter() -> None:
    banded = FocusedLinear(200, 30, mu=0.5, sigma=0.01).banded()
    x = torch.randn(2, 200)
    other = x.clone()
    other[:, :20] = torch.nan
    assert torch.equal(banded(x), banded(other))


@every_way
@pytest.mark.parametrize("topology", [None, (20, 20)])
@pytest.mark.parametrize("samples", [0, 1, 40, 600])
def test_the_fastest_product_is_kept(samples: int, topology: Any, fastest: str) -> None:
    torch.manual_seed(0)
    layer = FocusedLinear(400, 800, topology=topology, mu="random", sigma=0.03).eval()
    torch.nn.init.normal_(layer.bias)
    layer.prune(1.0)
    banded, x = layer.banded(), torch.randn(samples, 400)
    size = len(banded.state_dict())
    for _ in range(2):
        with torch.inference_mode():
            assert_same(banded(x), layer(x))
    assert [type(way) for way in banded._tuned().products.values()] == (
        [WAYS[fastest]] if samples else []
    )
    ascending = x.clone().requires_grad_()
    banded(ascending).sum().backward()  # also where the choice was made without gradients
    assert ascending.grad is not None
    assert len(banded.state_dict()) == size
    doubled = {
        name: 2 * value if value.is_floating_point() else value
        for name, value in banded.state_dict().items()
    }
    banded.load_state_dict(doubled)
    assert_same(banded(x), 2 * layer(x))
    assert_same(banded.double()(x.double()).float(), 2 * layer(x))


@pytest.mark.parametrize("fastest", ["tiles", "dense"], indirect=True)
@pytest.mark.parametrize("samples", [1, 50])
def test_double_precision_has_tiles(samples: int, fastest: str) -> None:
    banded, x = banded_of(), torch.randn(samples, 400, dtype=torch.float64)
    weight, bias = banded._dense()
    wanted = torch.nn.functional.linear(x, weight.double(), bias.double())
    torch.testing.assert_close(banded.double()(x), wanted)
    assert [type(way) for way in banded._tuned().products.values()] == [WAYS[fastest]]


def banded_of() -> BandedLinear:
    torch.manual_seed(0)
    layer = FocusedLinear(400, 800, mu="random", sigma=0.05)
    torch.nn.init.normal_(layer.bias)
    layer.prune(1.0)
    return layer.banded()


@every_way
def test_layers_that_stay_whole(fastest: str) -> None:
    layer = FocusedLinear(60, 40, mu="random", sigma=0.2).eval()
    layer.prune(0.3)
    banded = layer.banded()
    assert banded.work == 1
    for samples in (0, 1, 3, 40):
        x = torch.randn(samples, 60)
        assert_same(banded(x), layer(x))
        assert_same(banded(x.requires_grad_()), layer(x))
    with pytest.raises(ValueError, match=r"BandedLinear expects inputs \(\*, 60\), not \(2, 61\)."):
        banded(torch.randn(2, 61))


@every_way
def test_weights_may_change(fastest: str) -> None:
    banded, x = banded_of(), torch.randn(4, 400)
    before = banded(x)
    doubled = {
        name: 2 * value if value.is_floating_point() else value
        for name, value in banded.state_dict().items()
    }
    assert_same(torch.func.functional_call(banded, doubled, x), 2 * before)
    assert_same(banded(x), before)
    with torch.no_grad():
        for value in banded.buffers():
            if value.is_floating_point():
                value.mul_(2)
    assert_same(banded(x), 2 * before)


def doubled(banded: BandedLinear) -> dict[str, torch.Tensor]:
    state = banded.state_dict()
    return {name: 2 * each if each.is_floating_point() else each for name, each in state.items()}


def test_weights_may_change_while_another_thread_looks_for_the_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    banded, x = banded_of(), torch.randn(4, 400)
    began, go_on = threading.Event(), threading.Event()

    def measured(way: Any, _: Any) -> float:
        if threading.current_thread() is late:
            began.set()
            go_on.wait()
        return 1.0 if isinstance(way, Blocks) else 2.0

    monkeypatch.setattr("focusing.nn.sparse.banded._seconds", measured)
    late = threading.Thread(target=banded, args=(x,))
    late.start()
    assert began.wait(60)
    banded.load_state_dict(doubled(banded))
    wanted = banded(x)
    go_on.set()
    late.join()
    assert torch.equal(banded(x), wanted)


def test_weights_that_were_made_in_inference_mode_may_change() -> None:
    with torch.inference_mode():
        banded, x = banded_of(), torch.randn(4, 400)
        before = banded(x)
        banded.load_state_dict(doubled(banded))
        assert_same(banded(x), 2 * before)
        banded.to(torch.float64).to(torch.float32)  # now they can no longer be watched
        again = banded(x)
        banded.load_state_dict(doubled(banded))
        assert_same(banded(x), 2 * again)


@every_way
def test_gradients_reach_weights_that_want_them(fastest: str) -> None:
    banded, x = banded_of(), torch.randn(4, 400)
    banded(x)
    assert banded.bias is not None
    banded.bias.requires_grad_()
    banded(x).sum().backward()
    assert torch.equal(banded.bias.grad, torch.full((800,), 4.0))
    with torch.no_grad():
        assert not banded(x).requires_grad
    wanting = {
        name: each.clone().requires_grad_() if each.is_floating_point() else each
        for name, each in banded_of().state_dict().items()
    }
    with torch.no_grad():
        found = torch.func.functional_call(banded_of(), wanting, x)
    assert_same(found, banded_of()(x))


class Own(torch.Tensor):
    """Somebody's own kind of tensor."""


@every_way
@pytest.mark.parametrize("kind", ["negated", "zero", "own", "sparse", "strided", "expanded"])
def test_unusual_inputs(kind: str, fastest: str) -> None:
    banded, x = banded_of(), torch.randn(40, 400)
    given = {
        "negated": torch.complex(x, x).conj().imag,
        "zero": torch._efficientzerotensor(40, 400),
        "own": x.as_subclass(Own),
        "sparse": x.to_sparse(),
        "strided": torch.randn(80, 800)[::2, ::2],
        "expanded": torch.randn(1, 400).expand(40, 400),
    }[kind]
    banded(x)
    weight, bias = banded._dense()
    plain = given.to_dense() if kind == "sparse" else given.resolve_neg().as_subclass(torch.Tensor)
    wanted = torch.nn.functional.linear(plain.clone(), weight, bias)
    if kind == "sparse":
        with pytest.raises(NotImplementedError):  # whatever was the fastest
            banded(given)
    else:
        found = banded(given)
        assert type(found) is type(given)
        assert_same(found.as_subclass(torch.Tensor), wanted)


@every_way
def test_only_shapes_are_known_on_meta(fastest: str) -> None:
    banded = banded_of().to("meta")
    assert banded(torch.empty(40, 400, device="meta")).shape == (40, 800)


def test_each_number_of_threads_has_its_own_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    banded, x = banded_of(), torch.randn(64, 400)
    for threads in (1, 2, 3):
        monkeypatch.setattr("torch.get_num_threads", lambda threads=threads: threads)
        banded(x)
    ways = banded._tuned().products
    assert [threads for _, threads, _ in ways] == [1, 2, 3]


def test_a_copy_outlives_its_original() -> None:
    banded, x = banded_of(), torch.randn(64, 400)
    wanted, blocks = banded(x), banded._tuned().blocks
    twin = copy.deepcopy(banded)
    assert twin._autotune is None
    with pytest.raises(TypeError, match="Blocks hold addresses"):
        copy.deepcopy(blocks)
    del banded, blocks
    assert torch.equal(twin(x), wanted)


@every_way
def test_autocast_gives_what_it_gives_a_linear_layer(fastest: str) -> None:
    banded, x = banded_of(), torch.randn(4, 400)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            assert banded(x).dtype == torch.bfloat16
        banded(x)


@every_way
def test_biases_may_change(fastest: str) -> None:
    banded, x = banded_of(), torch.randn(1, 400)
    before = banded(x)
    assert banded.bias is not None
    banded.bias.add_(1)
    assert_same(banded(x), before + 1)
    banded.bias = banded.bias + 1
    assert_same(banded(x), before + 2)


@every_way
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool, torch.bfloat16])
def test_inputs_of_another_type_are_refused(dtype: torch.dtype, fastest: str) -> None:
    banded, x = banded_of(), torch.randn(1, 400)
    banded(x)
    with pytest.raises(RuntimeError, match="dtype"):
        banded(x.to(dtype))


@every_way
@pytest.mark.parametrize("samples", [1, 64])
def test_what_was_chosen_is_not_used_while_somebody_watches(samples: int, fastest: str) -> None:
    banded, x, other = banded_of(), torch.randn(samples, 400), torch.randn(samples, 400)
    banded(x)
    with FlopCounterMode(display=False) as counter:
        banded(x)
    assert counter.get_total_flops() == round(2 * samples * 400 * 800 * banded.work)
    assert_same(make_fx(banded)(x)(other), banded(other))


@pytest.mark.parametrize("fastest", ["dense"], indirect=True)
def test_nothing_is_timed_while_somebody_watches() -> None:
    banded, x = banded_of(), torch.randn(64, 400)
    with FlopCounterMode(display=False) as counter:
        banded(x)
    assert counter.get_total_flops() == round(2 * 64 * 400 * 800 * banded.work)
    assert banded._autotune is None


@pytest.mark.parametrize("fastest", ["dense", "shared"], indirect=True)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("samples", [1, 64])
def test_nothing_is_timed_where_results_must_repeat(
    samples: int, dtype: torch.dtype, fastest: str
) -> None:
    banded, x = banded_of().to(dtype), torch.randn(samples, 400, dtype=dtype)
    banded(x)
    torch.use_deterministic_algorithms(True)
    single = dtype == torch.float32
    wanted = Blocks(*banded._dense())(x) if single else banded._by_tiles(x)
    assert torch.equal(banded(x), wanted)


@pytest.mark.parametrize("fastest", ["dense"], indirect=True)
def test_each_number_of_samples_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = banded_of()
    tried = []
    original = layer._candidates
    monkeypatch.setattr(
        layer, "_candidates", lambda known, x, n: tried.append(len(x)) or original(known, x, n)
    )
    for samples in (1, 1, 5, 6, 512, 700, 2048, 4000):
        layer(torch.randn(samples, 400))
    assert tried == [1, 5, 512, 2048]


def test_keeps_mode_dtype_and_is_a_copy() -> None:
    layer = FocusedLinear(30, 5, dtype=torch.float64).eval()
    banded = layer.banded()
    assert not banded.training
    assert FocusedLinear(30, 5).banded().training
    x = torch.randn(2, 30).double()
    before = banded(x)
    assert before.dtype == torch.float64
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.ones_(layer.bias)
    assert torch.equal(banded(x), before)


@pytest.mark.parametrize("shape", [(30,), (0, 30), (2, 3, 4, 30)])
def test_leading_dimensions(shape: tuple[int, ...]) -> None:
    banded = FocusedLinear(30, 5).banded()
    x = torch.randn(shape)
    y = banded(x)
    assert y.shape == (*shape[:-1], 5)
    assert_same(y.reshape(-1, 5), banded(x.reshape(-1, 30)))


def test_gradients_reach_the_input() -> None:
    layer = FocusedLinear(30, 5, backend="reference")
    x = torch.randn(2, 30, requires_grad=True)
    found = [torch.autograd.grad(f(x).sum(), x)[0] for f in (layer, layer.banded())]
    assert_same(*found)


def test_can_be_copied_saved_and_exported() -> None:
    layer = FocusedLinear(90, 130, mu="random")
    banded, x = layer.banded().eval(), torch.randn(3, 90)
    assert torch.equal(copy.deepcopy(banded)(x), banded(x))
    file = io.BytesIO()
    torch.save(banded.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    with torch.no_grad():
        expected = banded(x)
        banded.weight_0.zero_()
        banded.load_state_dict(state)
    assert torch.equal(banded(x), expected)
    exported = torch.export.export(banded, (x,)).module()
    assert_same(exported(x), expected)


def test_repr() -> None:
    banded = FocusedLinear(784, 800).banded()
    text = repr(banded)
    assert "in_features=784, out_features=800" in text
    assert f"work={banded.work:.3f}" in text


@pytest.mark.parametrize("topology", [None, (28, 28)])
def test_its_own_order_is_the_neurons_permuted(topology: Any) -> None:
    torch.manual_seed(0)
    layer = FocusedLinear(784, 200, topology=topology, mu="random", sigma=0.03).eval()
    layer.prune(1.0)
    torch.nn.init.normal_(layer.bias)
    banded = BandedLinear(layer.effective_weight(), layer.bias, positions=layer.tau, restore=False)
    assert banded.order is not None
    x = torch.randn(3, 784)
    expected = layer(x)[:, banded.order]
    assert_same(banded(x), expected)


@pytest.mark.parametrize("samples", [1, 64, 65])
def test_results_are_nobody_elses_memory(samples: int) -> None:
    layer = FocusedLinear(784, 200, bias=False, sigma=0.01).eval()
    banded = layer.banded()
    assert len(banded.sizes) > 1
    first, second = torch.randn(2, samples, 784)
    with torch.inference_mode():
        y = banded(first)
        kept = y.clone()
        banded(second)
        assert torch.equal(y, kept)
    with torch.no_grad():  # the memory it reuses must serve outside of inference mode too
        assert_same(banded(second), layer(second))
    twin = copy.deepcopy(banded).double()
    assert_same(twin(second.double()).float(), layer(second))


def test_threads_do_not_share_memory() -> None:
    layer = FocusedLinear(784, 200, sigma=0.01).eval()
    banded = layer.banded()
    inputs = [torch.randn(64, 784) for _ in range(64)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: [banded(x) for _ in range(20)][-1], inputs))
    for x, y in zip(inputs, found, strict=True):
        assert_same(y, layer(x))


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


@pytest.mark.parametrize("topology", [None, (28, 28)])
def test_can_be_put_together_from_plain_values(topology: Any) -> None:
    layer = FocusedLinear(784, 200, topology=topology, mu="random", sigma=0.03).eval()
    layer.prune(1.0)
    banded = layer.banded()
    tiles = json.loads(json.dumps(banded.tiles))
    twin = BandedLinear.from_tiles(784, tiles, banded.state_dict())
    x = torch.randn(3, 784)
    assert torch.equal(twin(x), banded(x))
    assert repr(twin) == repr(banded)


@pytest.mark.parametrize("neurons", [4, 400])
def test_inputs_of_another_width_are_refused(neurons: int) -> None:
    layer = FocusedLinear(784, neurons, mu="spread", sigma=0.02)
    layer.prune(1.0)
    banded = BandedLinear(layer.fold().weight)
    for shape in ((2, 783), (2, 785), (4, 392), (785,)):
        with pytest.raises(ValueError, match=r"inputs \(\*, 784\)"):
            banded(torch.randn(*shape))
