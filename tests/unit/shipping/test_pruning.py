"""``focusing prune``: pruning by the paper's rule, and the data that chooses the threshold."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from focusing.callbacks.pruning_curve import THRESHOLDS
from focusing.errors import UserError
from focusing.models import focused_mlp
from focusing.nn import BandedLinear
from focusing.shipping import prune as prune_module
from focusing.shipping.prune import (
    check_twin,
    fine_tune,
    inference_size,
    largest_that_keeps,
    pruned_copy,
    threshold_for,
    write_pruned,
)
from focusing.shipping.trained import load_run
from focusing.training.trainer import split_data
from tests.command_line import prune
from tests.unit.shipping.conftest import SYNTHETIC, make_run


def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "pruning.json").read_text())  # type: ignore[no-any-return]


def test_report_and_table(
    focused: Path, dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prune([str(focused), "--dense-twin", str(dense), "--out", str(tmp_path)])
    printed = capsys.readouterr()
    assert "as unpruned" in printed.out
    assert "twin by magnitude" in printed.out
    assert "connections per neuron" in printed.out
    assert printed.err == ""
    pruning = report(tmp_path)
    assert pruning["judge"] == "val"
    assert [point["threshold"] for point in pruning["curve"]] == list(THRESHOLDS)
    first, last = pruning["curve"][0], pruning["curve"][-1]
    assert first["judged"] == pruning["unpruned"]["judged"]
    assert first["twin_test"] == pruning["dense_twin"]["test"]
    assert (first["sparsity"], first["threshold"]) == (0, 0)
    assert 0 < last["sparsity"] < 1
    assert pruning["keeps"]["own"]["judged"] >= pruning["unpruned"]["judged"]
    chosen = pruning["chosen"]
    assert chosen["threshold"] == pruning["keeps"]["own"]["threshold"]
    assert chosen["pruned"]["test"] == pruning["keeps"]["own"]["test"]
    assert chosen["sparsity"] == pytest.approx(pruning["keeps"]["own"]["sparsity"])
    assert chosen["connections"]["hidden1"]["most"] <= 40


def test_pruned_network_can_be_loaded(focused: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(focused, run)
    prune([str(run), "--sparsity", "0.6", "--json"])
    chosen = report(run)["chosen"]
    net = load_run(run, pruned=True).net
    [layer] = net.focused_layers().values()
    assert layer.mask is not None
    assert 1 - layer.mask.float().mean().item() == pytest.approx(chosen["sparsity"])
    assert chosen["sparsity"] == pytest.approx(0.6, abs=0.01)
    whole = load_run(run).net
    phi = whole.focused_layers()["hidden1"].phi()
    assert torch.equal(layer.mask, phi >= chosen["threshold"])
    for sparsity in (0.0, 0.3, 0.95):
        dropped = (phi < threshold_for(whole, sparsity)).float().mean().item()
        assert dropped == pytest.approx(sparsity, abs=0.01)


def test_fine_tuning_keeps_the_mask(focused: Path, tmp_path: Path) -> None:
    prune([str(focused), "--threshold", "1.2", "--finetune", "2", "--out", str(tmp_path)])
    chosen = report(tmp_path)["chosen"]
    assert chosen["epochs"] == 2
    assert "finetuned" in chosen
    run = load_run(focused)
    net = pruned_copy(run.net, 1.2)
    [layer], [whole] = net.focused_layers().values(), run.net.focused_layers().values()
    mask, weight = layer.mask.clone(), layer.weight.detach().clone()
    fine_tune(run, net, 2)
    assert torch.equal(layer.mask, mask)
    assert not torch.equal(layer.weight, weight)
    assert whole.mask is None
    state = torch.load(tmp_path / "pruned.pt", weights_only=True)
    assert torch.equal(state["state_dict"]["hidden1.weight"], layer.weight)


def test_warning_if_test_data_chooses_the_threshold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, *SYNTHETIC)
    prune([str(run), "--keep-accuracy"])
    assert "the test data chooses" in capsys.readouterr().err
    pruning = report(run)
    assert pruning["judge"] == "test"
    assert pruning["dense_twin"] is None
    assert all(point["judged"] == point["test"] for point in pruning["curve"])


def test_largest_that_keeps() -> None:
    points = [{"judged": value} for value in (2.0, 1.9, 2.5)]
    assert largest_that_keeps(points, 2.0, "mae") is points[1]
    assert largest_that_keeps(points, 2.0, "acc") is points[2]
    assert largest_that_keeps(points, 1.0, "mae") is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["{dense}"], "has no focused layers"),
        (["{focused}", "--dense-twin", "{focused}"], "is not a dense twin"),
        (["{focused}", "--dense-twin", "{pictures}"], "is not a dense twin"),
        (["{focused}", "--threshold", "-1"], "is not a number of at least 0"),
        (["{focused}", "--threshold", "inf"], "is not a number of at least 0"),
        (["{focused}", "--threshold", "nan"], "is not a number of at least 0"),
        (["{focused}", "--sparsity", "1"], "must be at least 0 and less than 1"),
        (["{focused}", "--threshold", "1", "--sparsity", "0.5"], "not allowed with"),
        (["{focused}", "--keep-accuracy", "twin"], "Add --dense-twin RUN"),
        (["{focused}", "--finetune", "-1"], "--finetune: -1 is not a number of at least 0"),
        (["nowhere"], "nowhere is not a run folder"),
        (["{dense}/result.json"], "has no focused layers"),
        ([], "required"),
    ],
)
def test_invalid_arguments(
    focused: Path, dense: Path, pictures: Path, arguments: list[str], expected: str
) -> None:
    filled = [text.format(focused=focused, dense=dense, pictures=pictures) for text in arguments]
    with pytest.raises(UserError, match=expected):
        prune(filled)


def test_twin_on_other_data_is_rejected(focused: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path, *SYNTHETIC, "model=dense", "protocol=holdout", "data.seed=1")
    with pytest.raises(UserError, match="not trained on the same data"):
        prune([str(focused), "--dense-twin", str(other)])


def test_twin_trained_on_judging_samples_is_rejected(focused: Path, dense: Path) -> None:
    run, twin = load_run(focused), load_run(dense)
    check_twin(run, twin)
    whole = {"train": twin.data.train, "test": twin.data.test}
    for splits in (whole, split_data({**twin.config, "seed": 5}, twin.data)):
        with pytest.raises(UserError, match="has other val samples than"):
            check_twin(run, replace(twin, splits=splits))
    check_twin(replace(run, splits=whole), twin)  # the test data judges


def test_warning_if_neurons_keep_no_connections(
    focused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peaks = load_run(focused).net.focused_layers()["hidden1"].phi().amax(1)
    between = (peaks.min() + peaks.max()).item() / 2
    for threshold, expected in {between: "some neurons keep no", 1e6: "all connections"}.items():
        prune([str(focused), "--threshold", str(threshold), "--out", str(tmp_path)])
        assert expected in capsys.readouterr().err
    prune([str(focused), "--threshold", "1e-7", "--finetune", "1", "--out", str(tmp_path)])
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "t = 1e-07" in printed.out
    assert "after 1 epoch " in printed.out


def test_invalid_report_leaves_no_files(focused: Path, tmp_path: Path) -> None:
    chosen = {"threshold": float("inf"), "sparsity": 1.0, "epochs": 0}
    with pytest.raises(ValueError, match="JSON"):
        write_pruned(tmp_path / "new", load_run(focused).net, {"chosen": chosen})
    assert not (tmp_path / "new").exists()


def test_inference_size_counts_all_linear_layers() -> None:
    net = focused_mlp(784, 10, hidden=[400], sigma=0.02)
    net.focused_layers()["hidden1"].prune(1.0)
    [banded] = [m for m in net.to_inference(True).modules() if isinstance(m, BandedLinear)]
    done = banded.work * 784 * 400 + 400 * 10
    assert inference_size(net)["work"] == pytest.approx(done / (784 * 400 + 400 * 10))


def test_table_is_printed_even_if_no_threshold_keeps_the_twins_accuracy(
    focused: Path, dense: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prune_module, "largest_that_keeps", lambda *_: None)
    with pytest.raises(UserError, match="keeps the accuracy of the dense twin"):
        prune([str(focused), "--dense-twin", str(dense), "--keep-accuracy", "twin"])
    assert "twin by magnitude" in capsys.readouterr().out
