"""Dropout: as torch's, with masks that are drawn faster on CPUs."""

import pytest
import torch
from torch import fx, nn

from benchmarks import step
from focusing.models import MLP
from focusing.nn import Dropout
from focusing.nn.dropout import MIN_VALUES


@pytest.mark.parametrize("p", [0.2, 0.25, 0.5])
@pytest.mark.parametrize("shape", [(512, 801), (3, 40, 40, 9)])
def test_drops_at_its_rate_and_scales_the_rest(
    p: float, shape: tuple[int, ...], device: torch.device
) -> None:
    torch.manual_seed(0)
    output = Dropout(p)(torch.ones(shape, device=device))
    dropped = output == 0
    assert output[~dropped].unique().tolist() == [pytest.approx(1 / (1 - p))]
    rate, deviation = dropped.float().mean().item(), (p * (1 - p) / output.numel()) ** 0.5
    assert rate == pytest.approx(p, abs=4 * deviation)
    # One random number serves four values: each of the four drops at the rate, on its own.
    parts = dropped.flatten()[: output.numel() // 4 * 4].view(-1, 4).float()
    assert parts.mean(0).tolist() == pytest.approx([p] * 4, abs=8 * deviation)
    both = (parts.T @ parts / len(parts))[~torch.eye(4, dtype=torch.bool, device=device)]
    assert both.tolist() == pytest.approx([p * p] * 12, abs=8 * deviation)


def test_gradients_pass_where_values_do(device: torch.device, dtype: torch.dtype) -> None:
    x = torch.randn(64, 128, device=device, dtype=dtype, requires_grad=True)
    output = Dropout(0.5)(x)
    output.sum().backward()
    assert output.dtype == dtype
    torch.testing.assert_close(output, x.detach() * x.grad)
    assert sorted(x.grad.unique().tolist()) == [0, 2]


def test_follows_the_seed() -> None:
    layer, x = Dropout(0.3), torch.ones(4, MIN_VALUES)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(layer(x))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize(
    ("layer", "values"),
    [
        (Dropout(0.5).eval(), MIN_VALUES),
        (Dropout(0.5), MIN_VALUES - 1),
        (Dropout(0.0), MIN_VALUES),
        (Dropout(1.0), MIN_VALUES),
        (Dropout(0.5, inplace=True), MIN_VALUES),
    ],
    ids=["eval", "few values", "nothing", "everything", "inplace"],
)
def test_elsewhere_it_is_that_of_torch(layer: Dropout, values: int) -> None:
    twin = nn.Dropout(layer.p, layer.inplace).train(layer.training)
    x = torch.randn(1, values)
    torch.manual_seed(0)
    expected = twin(x.clone())
    torch.manual_seed(0)
    assert torch.equal(layer(x.clone()), expected)


def test_needs_no_device_of_its_own(strays_fail: None) -> None:
    assert Dropout(0.5)(torch.ones(2, MIN_VALUES, device="cpu")).device.type == "cpu"


def test_is_recorded_as_one_call() -> None:
    net = nn.Sequential(Dropout(0.5))
    kinds = [node.op for node in fx.symbolic_trace(net).graph.nodes]
    assert kinds == ["placeholder", "call_module", "output"]


def test_compiles_as_that_of_torch() -> None:
    x = torch.randn(2, MIN_VALUES)
    compiled = torch.compile(Dropout(0.5), backend="aot_eager", fullgraph=True)
    torch.manual_seed(0)
    output = compiled(x)
    torch.manual_seed(0)
    torch.testing.assert_close(output, nn.Dropout(0.5)(x))


@pytest.mark.parametrize("without", step.VARIANTS)
def test_benchmark(monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    net = MLP(8, 10, [4], dropout=[0.5])
    monkeypatch.setattr(step, "NETWORKS", {"small": lambda: net})
    monkeypatch.setattr(step, "BATCH", 4)
    assert step.measure(without, steps=1)["small"] > 0
    assert isinstance(net.dropout1, Dropout) == (without != "fast dropout")
