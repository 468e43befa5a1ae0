"""Options that a trainer refuses, and the size of evaluation batches."""

import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from focusing.data import Split
from focusing.errors import UserError
from focusing.models import MLP, FastText, Network, Transfer
from focusing.training.trainer import build_trainer, check_batch_norm, evaluation_batch
from tests.unit.training.fitting import OPTIONS, data, net, optim, trained

ONE = Split(torch.zeros(1, 1), torch.zeros(1))
THREE = Split(torch.zeros(3, 1), torch.zeros(3))


def resnet(size: int) -> Transfer:
    """A network with batch norms in its features, which also average over the image."""
    features = {"features": "resnet18", "pretrained": False}
    return Transfer((size, size, 3), 2, **features, hidden=2, batch_norm=False)


def options(batch_size: int, drop_last: bool | str = False) -> dict[str, Any]:
    optim = {"batch_size": batch_size, "drop_last": drop_last}
    return {"optim": optim, "trainer": {"limit_batches": None}}


@pytest.mark.parametrize(
    ("net", "single"),
    [
        (MLP(4, 2, [3]), False),
        (MLP(4, 2, [3], batch_norm=False), True),
        (FastText(9, 2, 5), True),
        (resnet(32), False),
        (resnet(33), True),
    ],
    ids=["norm", "no norm", "text", "one pixel", "four pixels"],
)
def test_batches_of_one_sample_are_refused_with_batch_norm(net: Network, single: bool) -> None:
    before = {name: value.clone() for name, value in net.state_dict().items()}
    check_batch_norm(options(2, drop_last="auto"), net, THREE)
    for config, split, sentence in (
        (options(1), THREE, r"^optim\.batch_size=1: batch norm needs 2 or more samples"),
        (options(2), ONE, "^There is 1 training sample: batch norm needs 2 or more"),
        (options(2), THREE, r"^optim\.drop_last=false leaves a last"),
    ):
        with nullcontext() if single else pytest.raises(UserError, match=sentence):
            check_batch_norm(config, net, split)
    after: dict[str, Tensor] = net.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize(
    ("batch_norm", "drop_last", "steps"),
    [(True, "auto", 2), (True, False, 3), (False, "auto", 3), (False, True, 2)],
)
def test_small_last_batch_is_dropped_with_batch_norm(
    tmp_path: Path, batch_norm: bool, drop_last: bool | str, steps: int
) -> None:
    samples = Split(torch.rand(70, 40), torch.arange(70) % 2)
    module = trained(
        tmp_path,
        network=net(batch_norm=batch_norm),
        settings=optim(batch_size=32, drop_last=drop_last),
        dataset=replace(data(), train=samples),
        epochs=1,
    )
    assert module.trainer.global_step == steps


def test_an_unknown_accelerator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="trainer: "):
        build_trainer({**OPTIONS, "accelerator": "abacus"}, tmp_path)


@pytest.mark.parametrize(
    ("shape", "samples"),
    [((28, 28, 1), 1024), ((60, 60, 1), 1024), ((125, 125, 3), 89), ((4096, 4096), 1)],
)
def test_large_images_are_evaluated_in_small_batches(shape: tuple[int, ...], samples: int) -> None:
    assert evaluation_batch(Split(torch.zeros(1, *shape), torch.zeros(1))) == samples


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages of Linux")
def test_large_tensors_are_put_in_huge_pages() -> None:
    """In time: torch decides at the first tensor. It puts what may be in huge pages on a page."""
    code = """
import mmap, torch, focusing.run
tensors = [torch.ones(2**20 + 100 * k) for k in range(5)]
print(max(tensor.data_ptr() % mmap.PAGESIZE for tensor in tensors))
"""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("THP")}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout == "0\n"
