"""Accuracy against sparsity, in the record."""

from pathlib import Path

import pytest

from focusing.callbacks import PruningCurve
from focusing.models import MLP
from tests.unit.training.fitting import measured, net, same_weights, trained


def test_of_a_focused_network(tmp_path: Path) -> None:
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


def test_the_default_is_the_paper(tmp_path: Path) -> None:
    callback = PruningCurve()
    trained(tmp_path, network=net(hidden=[2]), callbacks=[callback], epochs=1)
    assert len(measured(callback, "pruning")["curve"]) == 41
