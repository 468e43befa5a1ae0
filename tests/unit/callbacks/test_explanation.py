"""SHAP values that add up to the outputs."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from focusing.callbacks import Explanation
from focusing.callbacks.explanation import first_of_each_class, separate_activations
from focusing.data import DataSet, Split
from focusing.errors import UserError
from focusing.models import CNN, MLP, Network
from tests.unit.training.fitting import measured, net, trained

if importlib.util.find_spec("shap") is None:
    pytest.skip("shap is not installed", allow_module_level=True)


def images(classes: int = 3) -> DataSet:
    torch.manual_seed(0)
    targets = torch.arange(60) % classes if classes else torch.randn(60)
    split = Split(torch.randn(60, 6, 6, 1), targets)
    return DataSet("images", "generated", split, split, classes)


def fit(folder: Path, network: Any, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    callback = Explanation(samples=2, classes=2, background=20, **options)
    trained(folder, network=network, dataset=images(), callbacks=[callback], epochs=1)
    result = measured(callback, "explanation")
    return result, dict(np.load(folder / result["file"]))


def test_the_values_of_a_linear_network_by_hand(tmp_path: Path) -> None:
    network = net(hidden=[], inputs=36, outputs=3)
    result, arrays = fit(tmp_path, network)
    weight = network.output.weight.detach()  # type: ignore[union-attr, operator]
    split = images().train
    background = split.inputs[torch.linspace(0, 59, 20).long()].flatten(1)
    for sample in range(2):
        difference = split.inputs[sample].flatten() - background.mean(0)
        for rank, output in enumerate(arrays["classes"][sample]):
            expected = weight[output] * difference
            values = torch.tensor(arrays["values"][sample, rank]).flatten()
            torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-5)
    assert result["targets"] == [0, 1]


@pytest.mark.parametrize("focus", [None, {"sigma": 0.1, "mu": "spread"}])
def test_values_add_up_through_convolutions_pooling_and_batch_norm(
    tmp_path: Path, focus: dict[str, Any] | None
) -> None:
    torch.manual_seed(0)
    network = CNN((6, 6, 1), 3, filters=(4, 4), kernel=3, hidden=8, focus=focus)
    result, arrays = fit(tmp_path, network)
    assert arrays["values"].shape == (2, 2, 6, 6, 1)
    assert arrays["inputs"].shape == (2, 6, 6, 1)
    sums = arrays["values"].reshape(2, 2, -1).sum(2)
    difference = arrays["outputs"] - arrays["expected"]
    assert result["gap"]["largest"] == pytest.approx(np.abs(sums - difference).max(), abs=1e-6)
    assert result["gap"]["relative"] < 1e-4
    assert result["background"] == 20
    network.eval()
    with torch.no_grad():
        outputs = network(torch.tensor(arrays["inputs"]))
    top = outputs.topk(2)
    assert result["classes"] == top.indices.tolist()
    np.testing.assert_allclose(arrays["outputs"], top.values, rtol=1e-4, atol=1e-5)


def test_the_gradient_method_is_approximate(tmp_path: Path) -> None:
    result, _ = fit(tmp_path, MLP(36, 3, [8], batch_norm=False), method="gradient")
    assert result["method"] == "gradient"
    assert 0 < result["gap"]["relative"] < 0.5  # of 20 samples


def test_values_that_do_not_add_up_cause_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Twice(MLP):
        """Uses an activation twice, which the library does not support."""

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            hidden = self.relu1(self.hidden1(self.flatten(input)))
            return self.output(1 - self.relu1(1 - hidden))

    torch.manual_seed(0)
    result, _ = fit(tmp_path, Twice(36, 3, [8], batch_norm=False))
    assert result["gap"]["relative"] > 0.2
    assert "do not trust them. Try callbacks.explanation.method=gradient" in caplog.text


def test_regression_has_one_output(tmp_path: Path) -> None:
    callback = Explanation(samples=2, background=10)
    network = net(hidden=[4], inputs=36, outputs=1)
    trained(tmp_path, network=network, dataset=images(0), callbacks=[callback], epochs=1)
    result = measured(callback, "explanation")
    assert result["classes"] == [[0], [0]]
    assert result["gap"]["relative"] < 1e-4


def test_the_network_is_not_changed(tmp_path: Path) -> None:
    networks = [net(inputs=36, outputs=3, dropout=[0.5]) for _ in range(2)]
    fit(tmp_path / "a", networks[0])
    trained(tmp_path / "b", network=networks[1], dataset=images(), epochs=1)
    one, two = (network.state_dict() for network in networks)
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not any(module._forward_hooks for module in networks[0].modules())


def test_one_sample_of_each_class_in_the_order_of_the_data() -> None:
    targets = torch.tensor([7, 2, 2, 1, 7, 0])
    assert first_of_each_class(targets, 3).tolist() == [0, 1, 3]
    assert first_of_each_class(targets, 9).tolist() == [0, 1, 3, 5]
    assert first_of_each_class(torch.rand(4), 2).tolist() == [0, 1]


def test_shared_activations_are_separated() -> None:
    relu = nn.ReLU(inplace=True)
    network = separate_activations(nn.Sequential(relu, nn.Linear(2, 2), relu, nn.Sequential(relu)))
    relus = [module for module in network.modules() if isinstance(module, nn.ReLU)]
    assert len(set(relus)) == 3
    assert not any(relu.inplace for relu in relus)


def test_tokens_are_refused_before_training(tmp_path: Path) -> None:
    class Bag(Network):
        def __init__(self) -> None:
            super().__init__(36, 3, [4])
            self.words = nn.EmbeddingBag(9, 3)

    with pytest.raises(UserError, match="callbacks.explanation: tokens"):
        trained(tmp_path, network=Bag(), dataset=images(), callbacks=[Explanation()])  # type: ignore[arg-type]


def test_the_error_without_shap_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    monkeypatch.setattr("focusing.callbacks.explanation.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'focusing\[shap\]'"):
        Explanation()
