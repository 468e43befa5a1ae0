"""FSDP: sharded training in two processes matches training in one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn

from focusing import FocusedLinear
from tests.forkserver import CONTEXT


def make() -> nn.Sequential:
    torch.manual_seed(0)
    first, second = FocusedLinear(24, 200, sigma=0.2), FocusedLinear(200, 200)
    return nn.Sequential(first, nn.Tanh(), second, nn.Linear(200, 2)).double()


def train(net: nn.Module, x: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):  # storages are freed after each pass
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def trained_by_fully_shard(net: nn.Sequential, x: torch.Tensor) -> list[torch.Tensor]:
    from torch.distributed import fsdp

    mesh = distributed.init_device_mesh("cpu", (2,))
    fsdp.fully_shard(net[2], mesh=mesh)
    fsdp.fully_shard(net, mesh=mesh)
    if distributed.get_rank() == 0:
        repr(net)  # needs no collective operation
    train(net, x)
    net[0].constrain_()
    shards: Any = net.parameters()
    return [shard.full_tensor() for shard in shards]


def trained_by_wrapper(
    net: nn.Sequential, x: torch.Tensor, use_orig_params: bool
) -> list[torch.Tensor]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    wrapper = FullyShardedDataParallel(
        net, device_id=torch.device("cpu"), use_orig_params=use_orig_params
    )
    train(wrapper, x)
    with FullyShardedDataParallel.summon_full_params(wrapper):
        net[0].constrain_()
        return [value.clone() for value in net.parameters()]


def work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    x = torch.randn(8, 24, generator=torch.Generator().manual_seed(1)).double()
    whole, own = make(), x.chunk(2)[rank]
    train(whole, x)
    whole[0].constrain_()
    for values in (
        trained_by_fully_shard(make(), own),
        trained_by_wrapper(make(), own, use_orig_params=True),
        trained_by_wrapper(make(), own, use_orig_params=False),
    ):
        torch.testing.assert_close(values, list(whole.parameters()), rtol=1e-9, atol=1e-12)
    distributed.destroy_process_group()


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    processes = [CONTEXT.Process(target=work, args=(rank, tmp_path)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]


def test_a_freed_storage_is_an_error() -> None:
    layer = FocusedLinear(24, 200)
    layer.weight.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="storage"):
        layer(torch.randn(3, 24))
