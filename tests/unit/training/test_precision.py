"""Mixed precision: float16 with a scaled loss, and bfloat16 without."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from focusing.data import DataSet, Split
from focusing.training.checkpoint import load_checkpoint
from focusing.training.optimizer import fuse_optimizer
from tests.unit.training.fitting import net, optim, trained


class Scale(pl.Callback):
    """Sets the initial loss scale; torch's default makes the first steps overflow."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if pl_module.scaler is not None:
            pl_module.scaler._init_scale = self.scale


@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed"])
@pytest.mark.parametrize("options", [{}, {"clip_value": 0.01, "accumulate": 2}])
def test_mixed_precision_matches_single_precision(
    tmp_path: Path, precision: str, options: dict[str, Any]
) -> None:
    runs = [
        trained(
            tmp_path / kind,
            settings=optim(**options),
            callbacks=[Scale(2.0**10)],
            precision=kind,
        )
        for kind in ("32-true", precision)
    ]
    assert all(weights.dtype == torch.float32 for weights in runs[1].parameters())
    for one, two in zip(*(run.parameters() for run in runs), strict=True):
        torch.testing.assert_close(one, two, rtol=0.01, atol=0.01)
    assert runs[0].series["train/loss"] == pytest.approx(runs[1].series["train/loss"], rel=0.01)
    saved = load_checkpoint(tmp_path / precision / "checkpoints" / "last.ckpt")
    scale = saved.get("MixedPrecision", {}).get("scale")
    assert scale == (2.0**10 if precision == "16-mixed" else None)


def test_targets_are_not_rounded(tmp_path: Path) -> None:
    """bfloat16 has no number between 500 and 502, and float32 targets of a network in halves."""
    torch.manual_seed(0)
    split = Split(torch.randn(32, 40), 500 + torch.rand(32))
    dataset = DataSet("near 500", "generated", split, split, classes=0)
    network = net(outputs=1)
    with torch.no_grad():
        network.output.weight.zero_()
        network.output.bias.fill_(500.0)
    settings = optim(lr=1e-12, lr_mu=0.0, lr_sigma=0.0)
    module = trained(
        tmp_path, network=network, dataset=dataset, settings=settings, precision="bf16-true"
    )
    assert network.output.weight.dtype == torch.bfloat16
    expected = (split.targets - 500).abs().mean().item()
    assert module.series["test/mae"] == pytest.approx([expected] * 3, rel=1e-4)


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam"])  # NAdam has no fused kernel
def test_overflowed_steps_are_skipped(tmp_path: Path, name: str) -> None:
    """Also the first, after which torch's fused SGD would use uninitialised momentum."""
    settings = optim(name=name, **({"momentum": 0.9} if name == "SGD" else {}))
    start = net().state_dict()
    module = trained(
        tmp_path, settings=settings, callbacks=[Scale(2.0**100)], epochs=1, precision="16-mixed"
    )
    for key, value in module.net.state_dict().items():
        if "norm" not in key or "running" not in key and "tracked" not in key:
            assert torch.equal(value, start[key]), key
    assert module.scaler is not None
    assert module.scaler.get_scale() == 2.0 ** (100 - module.global_step)
    for moments in module.optimizer.state.values():
        for value in moments.values():
            assert not torch.as_tensor(value).any()


def test_only_optimizers_with_a_fused_kernel_are_fused() -> None:
    assert fuse_optimizer(optim()).options == {"fused": True}
    assert fuse_optimizer(optim(options={"fused": False})).options == {"fused": False}
    assert fuse_optimizer(optim(name="NAdam")).options == {}
