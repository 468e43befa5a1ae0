"""Records of the foci are complete, also after errors, and go to loggers that accept images."""

import logging
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pytorch_lightning.loggers import TensorBoardLogger

from focusing import FocusedLinear
from focusing.callbacks import ClipFoci, FocusTrajectory
from focusing.callbacks.focus_trajectory import MAX_STORED_NEURONS, Trajectory
from focusing.models import MLP, build_network, focused_transformer
from focusing.training.module import FocusingModule
from focusing.training.resume import Interrupted
from tests.unit.models.test_dynamic_network import FOCUSED
from tests.unit.training.fitting import Raise, Signal, net, optim, trained


def fit(folder: Path, callback: FocusTrajectory, *more: Any, **options: Any) -> FocusingModule:
    return trained(folder, callbacks=[callback, ClipFoci(), *more], **options)


def load(folder: Path) -> dict[str, Any]:
    with np.load(folder / "focus.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def test_content_of_the_file(tmp_path: Path) -> None:
    network = net()
    layer = network.focused_layers()["hidden1"]
    mu, sigma = (focus.detach().clone() for focus in (layer.mu, layer.sigma))
    weight = layer.effective_weight().detach().clone()
    fit(tmp_path, FocusTrajectory(), network=network)
    arrays = load(tmp_path)
    assert arrays["epoch"].tolist() == [0, 1, 2, 3]
    assert arrays["hidden1/mu"].shape == arrays["hidden1/sigma"].shape == (4, 4, 1)
    np.testing.assert_array_equal(arrays["hidden1/mu"][0], mu)
    np.testing.assert_array_equal(arrays["hidden1/sigma"][0], sigma)
    np.testing.assert_array_equal(arrays["hidden1/mu"][-1], layer.mu.detach())
    np.testing.assert_array_equal(arrays["hidden1/weight_first"], weight)
    np.testing.assert_array_equal(arrays["hidden1/weight_last"], layer.effective_weight().detach())
    np.testing.assert_array_equal(arrays["hidden1/tau"], layer.tau)
    assert arrays["hidden1/shown"].tolist() == [0, 1, 2, 3]
    assert (str(arrays["hidden1/focus"]), str(arrays["hidden1/normalizer"])) == ("gaussian", "l2")


def test_start_and_end_are_always_recorded(tmp_path: Path) -> None:
    fit(tmp_path, FocusTrajectory(every=2), epochs=5)
    assert load(tmp_path)["epoch"].tolist() == [0, 2, 4, 5]


def test_a_broken_run_resumes_to_the_same_trajectory(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    fit(whole, FocusTrajectory(), epochs=4)
    with pytest.raises(RuntimeError, match="broken"):
        fit(broken, FocusTrajectory(), Raise(RuntimeError("broken"), epoch=2), epochs=4)
    assert load(broken)["epoch"].tolist() == [0, 1, 2]  # written despite the error
    with pytest.raises(Interrupted):
        fit(broken, FocusTrajectory(), Signal(signal.SIGTERM, 3), epochs=4)
    for _ in range(2):  # the second run has nothing left to train
        (broken / "focus.npz").unlink()
        fit(broken, FocusTrajectory(), epochs=4)
        np.testing.assert_equal(load(broken), load(whole))


def test_a_full_disk_does_not_hide_the_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "focus.npz").mkdir()  # cannot be replaced by a file
    with pytest.raises(RuntimeError, match="broken"), caplog.at_level(logging.WARNING):
        fit(tmp_path, FocusTrajectory(), Raise(RuntimeError("broken"), epoch=1))
    assert "focus.npz could not be written" in caplog.text


def test_dense_networks_leave_no_file(tmp_path: Path) -> None:
    fit(tmp_path, FocusTrajectory(movie="gif"), network=MLP(40, 2, [4]), epochs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


class TestMovement:
    """Movement of the foci, for the record."""

    @staticmethod
    def of(layer: FocusedLinear, mu: Any, sigma: Any = None, **data: Any) -> dict[str, Any]:
        trajectory = Trajectory()
        layers = {"a": layer, "b": FocusedLinear(11, 4, mu=0.3)}
        trajectory.record(0, layers)
        layer.mu.data = torch.tensor(mu)[:, None]
        if sigma is not None:
            layer.sigma.data = torch.tensor(sigma)[:, None]
        trajectory.record(1, layers)
        return trajectory.movement(data, layers)

    def test_distance_and_width(self) -> None:
        layer = FocusedLinear(11, 2, mu=0.5, sigma=0.1)
        expected = {"moved": 0.2, "sigma_first": 0.1, "sigma_last": 0.195, "widened": 0.5}
        assert self.of(layer, [0.6, 0.2], [0.3, 0.09])["a"] == pytest.approx(expected)

    def test_share_of_foci_among_informative_inputs(self) -> None:
        layer = FocusedLinear(11, 4, mu=0.3)
        movement = self.of(layer, [0.49, 0.5, 0.7, 0.71], informative=[5, 8])  # columns 5 to 7
        assert (movement["a"]["inside_first"], movement["a"]["inside_last"]) == (0, 0.5)
        assert "inside_last" not in movement["b"]  # its inputs are neurons
        layer = FocusedLinear(10, 2, grid="index", mu=0.48)
        movement = self.of(layer, [0.5, 0.9], informative=[5, 10])  # .5 to .9
        assert (movement["a"]["inside_first"], movement["a"]["inside_last"]) == (0, 1)

    def test_share_of_foci_in_each_domain(self) -> None:
        domains = {"image": (0, 6), "audio": (6, 11)}  # between .5 and .6
        movement = self.of(FocusedLinear(11, 4, mu=0.3), [0.0, 0.5, 0.56, 1.0], domains=domains)
        shares = {name: value for name, value in movement["a"].items() if name.startswith("in_")}
        assert shares == {
            "in_image_first": 1, "in_image_last": 0.5, "in_audio_first": 0, "in_audio_last": 0.5
        }  # fmt: skip
        assert "in_image_last" not in movement["b"]

    @pytest.mark.parametrize(
        ("options", "known"),
        [
            (FOCUSED, True),
            ({"_target_": "focusing.models.focused_cnn", "filters": [4]}, False),  # as many inputs
            ({**FOCUSED, "dynamic": {"grid": [8, 8]}}, False),  # fewer
        ],
        ids=["inputs", "features", "windows"],
    )
    def test_shares_need_a_layer_that_sees_the_inputs(
        self, options: dict[str, Any], known: bool
    ) -> None:
        module: Any = SimpleNamespace(net=build_network(options, inputs=(56, 28, 1), outputs=10))
        callback = FocusTrajectory()
        callback.on_fit_start(None, module)  # type: ignore[arg-type]
        callback.trajectory.record(0, callback._layers)
        domains = {"image": (0, 784), "audio": (784, 1568)}
        recorded = callback.measurements({"data": {"domains": domains, "informative": None}})
        shares = [name for layer in recorded["focus"].values() for name in layer if "in_" in name]
        assert bool(shares) == known

    def test_layers_with_nan_are_left_out(self) -> None:
        assert "a" not in self.of(FocusedLinear(10, 2), [torch.nan, 0.5])  # a record must be JSON


def test_checkpoints_stay_small() -> None:
    layer, trajectory = FocusedLinear(10, 2), Trajectory()
    for epoch in range(20):
        layer.mu.data.fill_(epoch / 100)
        trajectory.record(epoch, {"a": layer})
    state = trajectory.state_dict()["foci"]["a"]
    assert state.shape == (20, 2, 2, 1)
    assert state.untyped_storage().nbytes() == 20 * 2 * 2 * 4
    mu, _ = trajectory.foci("a")
    torch.testing.assert_close(mu[:, 0, 0], torch.arange(20) / 100)
    large = Trajectory()
    large.record(0, {"a": FocusedLinear(10, 300)})
    assert large.state_dict()["weight_first"]["a"].shape == (MAX_STORED_NEURONS, 10)


def test_tensorboard_gets_histograms_and_figures(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    logger = TensorBoardLogger(tmp_path, name="", version="tb")
    fit(tmp_path, FocusTrajectory(histograms=True), loggers=[logger], epochs=20)
    logger.finalize("success")
    keep = {"histograms": 0, "images": 0}  # all of them
    events = accumulators.EventAccumulator(str(tmp_path / "tb"), keep).Reload()
    assert events.Tags()["histograms"] == ["focus/hidden1/mu", "focus/hidden1/sigma"]
    assert len(events.Histograms("focus/hidden1/mu")) == 21
    assert len(events.Images("focus/hidden1")) == 11  # every tenth of the run, and at the end
    scalars = events.Tags()["scalars"]
    assert {"focus/hidden1/mu_mean", "focus/hidden1/sigma_std"} <= set(scalars)
    assert any(tag.startswith("lr/") for tag in scalars)


@pytest.mark.parametrize(
    ("topology", "frames"), [(None, [3]), ((8, 5), [3]), (((5, 4, 2), 1), [])], ids=repr
)
def test_an_animation_has_a_frame_per_record_and_volumes_have_none(
    tmp_path: Path, topology: Any, frames: list[int]
) -> None:
    fit(tmp_path, FocusTrajectory(movie="gif"), network=net(topology=topology), epochs=2)
    counted = []
    for path in (tmp_path / "figures").glob("foci_hidden1.gif"):
        with Image.open(path) as gif:
            counted.append(gif.n_frames)
    assert counted == frames


def test_the_record_holds_the_foci_of_attention_heads() -> None:
    net = focused_transformer((6, 6, 1), 3, width=8, heads=2, hidden=4, patch=3, sigma=[0.1, 0.4])
    module, callback = FocusingModule(net, optim()), FocusTrajectory()
    callback.on_fit_start(trainer=None, pl_module=module)  # type: ignore[arg-type]
    heads = callback.measurements({"data": {}})["measured"]["heads"]
    assert list(heads) == ["blocks.0.attention", "blocks.1.attention"]
    assert heads["blocks.1.attention"]["mu"] == [[0, 0], [0, 0]]
    assert heads["blocks.1.attention"]["sigma"][1] == pytest.approx([0.4, 0.4])
