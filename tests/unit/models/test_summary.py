"""The summary of a network, compared with counts by hand."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from focusing import FocusedAttention
from focusing.models import CNN, MLP, FastText, Transfer, focused_cnn, focused_mlp, summarize
from tests.unit.models.small import FOCUS, NETWORKS, make


def counts(net: MLP | CNN | Transfer | FastText) -> dict[str, tuple[int, int, int]]:
    return {
        layer.name: (layer.parameters, layer.connections, layer.multiply_adds)
        for layer in net.summary().layers
    }


def test_the_papers_simple_network() -> None:
    assert counts(MLP((28, 28, 1), 10, [800, 800], dropout=[0.2, 0.25])) == {
        "hidden1": (784 * 800 + 800, 784 * 800, 784 * 800),
        "norm1": (1600, 0, 0),
        "hidden2": (800 * 800 + 800, 800 * 800, 800 * 800),
        "norm2": (1600, 0, 0),
        "output": (8010, 8000, 8000),
    }
    assert MLP(784, 10, [800, 800]).summary().totals()["parameters"] == 1_280_010


@pytest.mark.parametrize(
    ("options", "more", "trained"),
    [
        ({}, 2 * 2 * 800, 2 * 2 * 800),
        ({"topology": "image"}, 2 * 3 * 800, 2 * 3 * 800),  # the second layer is on a line
        ({"train_mu": False, "train_sigma": False}, 2 * 2 * 800, 0),
    ],
)
def test_focus_adds_two_numbers_per_neuron_and_axis(options, more: int, trained: int) -> None:
    summary = focused_mlp((28, 28, 1), 10, hidden=[800, 800], **options, **FOCUS).summary()
    assert summary.totals()["parameters"] == 1_280_010 + more
    assert summary.totals()["trained"] == 1_280_010 + trained
    # The author's notebook says 31970 and 32090 for 40 neurons on MNIST: it also counts batch
    # norm's mean and variance, and a scale per focused neuron that was never trained.
    assert MLP(784, 10, [40]).summary().totals()["parameters"] == 31970 - 2 * 40
    focus = focused_mlp(784, 10, hidden=[40], **FOCUS)
    assert focus.summary().totals()["parameters"] == 32090 - 2 * 40 - 40


def test_the_papers_cnn() -> None:
    assert counts(CNN((28, 28, 1), 10)) == {
        "conv1": (25 * 32 + 32, 25 * 32, 25 * 32 * 28 * 28),
        "conv2": (25 * 32 * 32 + 32, 25 * 32 * 32, 25 * 32 * 32 * 28 * 28),
        "hidden": (6272 * 256 + 256, 6272 * 256, 6272 * 256),
        "norm": (512, 0, 0),
        "output": (2570, 2560, 2560),
    }
    dense = CNN((32, 32, 3), 10, batch_norm=False).summary().totals()["parameters"]
    assert dense == (75 * 32 + 32) + (25 * 32 * 32 + 32) + (8192 * 256 + 256) + 2570
    focus = focused_cnn((32, 32, 3), 10, batch_norm=False, **FOCUS)
    assert focus.summary().totals()["parameters"] == dense + 2 * 256
    focus = focused_cnn((32, 32, 3), 10, batch_norm=False, topology="image", **FOCUS)
    assert focus.summary().totals()["parameters"] == dense + 4 * 256


def test_the_papers_vgg16_and_fasttext() -> None:
    def parameters(**options) -> int:
        with torch.device("meta"):
            net = Transfer((32, 32, 3), 10, pretrained=False, **options)
        return sum(weights.numel() for weights in net.parameters())

    # 138 357 544 of VGG16 less 123 642 856 of its classifier; 11 689 512 of ResNet-18 less 513 000.
    assert parameters() == 14_714_688 + (512 * 40 + 40) + 80 + 410
    assert parameters(pad=3) == parameters() + 6 * 40
    assert parameters(features="resnet18") == 11_176_512 + (512 * 40 + 40) + 80 + 410
    assert counts(FastText((400,), 2, 20000)) == {
        "embedding": (20000 * 50, 20000 * 50, 400 * 50),
        "output": (51, 50, 50),
    }


def test_connections_of_a_focused_layer_are_those_in_its_foci() -> None:
    # 101 inputs 0.01 apart: exp(-d^2 / 2 / .02^2) > 1e-7 as far as d = .02 sqrt(2 ln 1e7) = .1135,
    # which is eleven inputs on either side of a centre that is on one.
    net = focused_mlp(101, 2, hidden=[3], batch_norm=False, mu=0.5, sigma=0.02)
    assert counts(net)["hidden1"] == (3 * 101 + 3 + 6, 3 * 23, 3 * 23)
    layer = net.focused_layers()["hidden1"]
    layer.prune(layer.phi()[0, 48].item() * 0.999)  # two on either side remain
    assert counts(net)["hidden1"] == (3 * 101 + 3 + 6, 3 * 5, 3 * 5)


def test_weights_pruned_by_torch_do_not_count() -> None:
    net = MLP(10, 2, [4], batch_norm=False)
    prune.l1_unstructured(net.hidden1, "weight", amount=30)
    assert counts(net)["hidden1"] == (44, 10, 10)


def test_shared_layers_are_counted_once() -> None:
    layer = nn.Linear(5, 5)
    totals = summarize(nn.Sequential(layer, nn.ReLU(), layer), torch.zeros(1, 5)).totals()
    assert totals == {"parameters": 30, "trained": 30, "connections": 25, "multiply_adds": 50}


def test_convolutions_of_volumes() -> None:
    [layer] = summarize(nn.Conv3d(2, 4, 3, padding=1), torch.zeros(1, 2, 5, 6, 7)).layers
    assert (layer.connections, layer.multiply_adds) == (216, 216 * 5 * 6 * 7)


class CrossAttention(nn.Module):
    """Five tokens attend to seven others."""

    def __init__(self, kind: type[nn.MultiheadAttention], batch_first: bool, sizes: dict) -> None:
        super().__init__()
        self.attention = kind(8, 2, batch_first=batch_first, **sizes)

    def forward(self, query: torch.Tensor) -> torch.Tensor:
        samples = (1, 7) if self.attention.batch_first else (7, 1)
        key, value = (
            query.new_zeros(*samples, size) for size in (self.attention.kdim, self.attention.vdim)
        )
        return self.attention(query, value=value, key=key)[0]


@pytest.mark.parametrize("kind", [nn.MultiheadAttention, FocusedAttention])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("sizes", [{}, {"kdim": 3, "vdim": 4}], ids=str)
def test_cross_attention(kind, batch_first: bool, sizes: dict[str, int]) -> None:
    query = torch.zeros(1, 5, 8) if batch_first else torch.zeros(5, 1, 8)
    layer = summarize(CrossAttention(kind, batch_first, sizes), query).layers[0]
    inputs = sum(sizes.values()) or 16  # of a key and its value
    assert layer.connections == 8 * (8 + inputs)
    # Projections of queries and outputs, of keys and values; scores and weighted sums.
    assert layer.multiply_adds == 5 * 2 * 8 * 8 + 7 * 8 * inputs + 2 * 5 * 7 * 8


@pytest.mark.parametrize("name", NETWORKS)
def test_summary_has_no_side_effects(name: str) -> None:
    net = make(name)
    net.output.eval()  # modes may differ
    state = {key: value.clone() for key, value in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    backends = [layer.backend for layer in net.focused_layers().values()]
    drawn = torch.get_rng_state()
    total = net.summary().totals()["parameters"]
    assert total == sum(weights.numel() for weights in net.parameters())
    assert torch.equal(drawn, torch.get_rng_state())
    assert modes == [module.training for module in net.modules()]
    assert backends == [layer.backend for layer in net.focused_layers().values()]
    assert not any(module._forward_hooks for module in net.modules())
    for key, value in net.state_dict().items():
        assert torch.equal(value, state[key])


def test_docs_show_the_printed_summary(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "networks.md").read_text()
    [block] = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(block, "networks.md", "exec"), {})  # noqa: S102 - our own page
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert f"```\n{printed}\n```" in page
