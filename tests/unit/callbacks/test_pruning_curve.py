"""Pruning curves, compared with networks that are pruned pruned."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from focusing.callbacks import PruningCurve
from focusing.callbacks.pruning_curve import (
    THRESHOLDS,
    connections,
    hidden_layers,
    magnitude_curve,
    pruning_curve,
    thresholds,
)
from focusing.data import Batches, Split
from focusing.models import MLP, focused_mlp
from focusing.nn import FocusedLinear
from focusing.training.metrics import score
from tests.unit.training.fitting import measured, same_weights, trained

LEVELS = [1.0, math.exp(-0.5), math.exp(-2.0)]
"""Phi of one neuron with mu 0 and sigma 1/2 on three inputs at 0, 1/2 and 1, not normalised."""


def three_inputs() -> nn.Module:
    """Class 1 if 1 * x0 + e^-.5 * x1 + 2 e^-2 * x2 > 0."""
    layer = FocusedLinear(3, 1, mu=0.0, sigma=0.5, normalizer="none")
    output = nn.Linear(1, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 1.0, 2.0]]))
        output.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        output.bias.zero_()
    return nn.Sequential(layer, output)


def three_samples() -> Batches:
    inputs = torch.tensor([[1.0, -1.0, -1.0], [-0.2, -1.0, 1.3], [-1.0, 2.0, 0.0]])
    return Batches(Split(inputs, torch.tensor([1, 0, 1])), 2)


def test_the_curve_by_hand() -> None:
    network = three_inputs()
    points = pruning_curve(network, three_samples(), [0.0, 0.2, LEVELS[1], 0.7, 1.5])
    assert [point["threshold"] for point in points] == [0.0, 0.2, LEVELS[1], 0.7, 1.5]
    assert [point["sparsity"] for point in points] == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 1])
    assert [point["layers"]["0"] for point in points] == [point["sparsity"] for point in points]
    # Outputs: 1 - .61 - .27 > 0, right; -.2 - .61 + .35 < 0, right; -1 + 1.21 > 0, right. Without
    # x2 the same signs; without x1 too -1 < 0, wrong; without all a tie, which is class 0.
    assert [point["acc"] for point in points] == pytest.approx([1, 1, 1, 2 / 3, 1 / 3])
    assert connections(network, 0.2) == {"0": [2]}
    assert connections(network, 0.7) == {"0": [1]}


def net(**options: Any) -> MLP:
    torch.manual_seed(0)
    return focused_mlp(20, 3, hidden=[12, 8], mu="spread", sigma=0.1, **options)


def batches() -> Batches:
    torch.manual_seed(1)
    return Batches(Split(torch.randn(50, 20), torch.randint(3, (50,))), 16)


def test_a_point_is_the_score_of_the_pruned_network() -> None:
    network = net(dropout=[0.5])
    for threshold, point in zip(
        [0.3, 1.2], pruning_curve(network, batches(), [0.3, 1.2]), strict=True
    ):
        pruned = copy.deepcopy(network).eval()
        shares = {name: layer.prune(threshold) for name, layer in pruned.focused_layers().items()}
        split = batches().split
        expected = score([pruned(split.inputs).detach()], [split.targets])
        assert point["layers"] == pytest.approx(shares)
        assert point["acc"] == expected["acc"]
        assert point["loss"] == pytest.approx(expected["loss"], rel=1e-5)


def test_a_layer_that_is_pruned_already_stays_pruned() -> None:
    network = net()
    share = network.focused_layers()["hidden1"].prune(0.8)
    [point] = pruning_curve(network, batches(), [0.0])
    assert point["layers"] == pytest.approx({"hidden1": share, "hidden2": 0})


@pytest.mark.parametrize("sparsity", [0.0, 0.31, 0.9])
def test_magnitude_pruning_matches_torch(sparsity: float) -> None:
    torch.manual_seed(0)
    network = MLP(20, 3, [12, 8])
    [point] = magnitude_curve(network, batches(), [sparsity])
    pruned = copy.deepcopy(network).eval()
    layers = [(pruned.hidden1, "weight"), (pruned.hidden2, "weight")]
    prune.global_unstructured(layers, prune.L1Unstructured, amount=sparsity)
    split = batches().split
    expected = score([pruned(split.inputs).detach()], [split.targets])
    assert point["acc"] == expected["acc"]
    assert point["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    gone = [(layer.weight == 0).float().mean().item() for layer, _ in layers]  # type: ignore[union-attr]
    assert list(point["layers"].values()) == pytest.approx(gone)
    assert point["sparsity"] == round(sparsity * 336) / 336


def test_magnitude_pruning_uses_effective_weights() -> None:
    [point] = magnitude_curve(three_inputs(), three_samples(), [0.34])
    assert point["sparsity"] == pytest.approx(1 / 3)
    # 1, .61 and 2 * .14: the third is the smallest, though its weight is 2.
    assert point["acc"] == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(dtype: torch.dtype) -> None:
    [point] = pruning_curve(net().to(dtype), batches(), [0.5])
    assert 0 < point["sparsity"] < 1


def test_layers_to_prune() -> None:
    assert list(hidden_layers(net())) == ["hidden1", "hidden2"]
    assert list(hidden_layers(MLP(20, 3, [12, 8]))) == ["hidden1", "hidden2"]
    assert list(hidden_layers(nn.Sequential(nn.Linear(2, 1)))) == ["0"]
    with pytest.raises(ValueError, match="neither focused nor linear"):
        hidden_layers(nn.ReLU())
    with pytest.raises(ValueError, match="no focused layers"):
        pruning_curve(MLP(20, 3, [12]), batches())


def test_the_thresholds_are_those_of_the_paper() -> None:
    assert len(THRESHOLDS) == 41
    assert THRESHOLDS[:2] == (0.0, pytest.approx(1e-7))
    assert THRESHOLDS[-1] == 1.5
    assert THRESHOLDS[27] == pytest.approx(1.0, abs=0.01)
    default = PruningCurve()
    assert tuple(thresholds(default.points, default.highest)) == THRESHOLDS


def test_the_record_of_a_focused_network(tmp_path: Path) -> None:
    callback = PruningCurve(points=3)
    module = trained(tmp_path / "a", callbacks=[callback], epochs=2)
    result = measured(callback, "pruning")
    curve, magnitude = result["curve"], result["magnitude"]
    assert [point["threshold"] for point in curve] == pytest.approx([0, 1e-7, 0.75, 1.5])
    assert curve[0]["sparsity"] == 0
    assert curve[0]["acc"] == module.series["test/acc"][-1]  # the last epoch, not the best
    assert curve[2]["sparsity"] < curve[3]["sparsity"] < 1
    assert [point["sparsity"] for point in magnitude] == [point["sparsity"] for point in curve]
    layer = module.net.focused_layers()["hidden1"]  # type: ignore[operator]
    expected = (layer.phi() >= 1).sum(1).tolist()
    assert result["connections"][1] == {"threshold": 1.0, "layers": {"hidden1": expected}}
    assert result["connections"][0]["threshold"] == 1e-7
    assert same_weights(module, trained(tmp_path / "b", epochs=2))


def test_a_dense_network_is_pruned_by_magnitude_only(tmp_path: Path) -> None:
    callback = PruningCurve(points=4)
    module = trained(tmp_path, network=MLP(40, 2, [4]), callbacks=[callback], epochs=1)
    result = measured(callback, "pruning")
    assert result["curve"] == result["connections"] == []
    assert [point["sparsity"] for point in result["magnitude"]] == [0, 0.25, 0.5, 0.75]
    assert list(result["magnitude"][1]["layers"]) == ["hidden1"]  # not the output
    assert result["magnitude"][0]["acc"] == module.series["test/acc"][-1]
