"""Errors and waits that occur only on a GPU, found without one.

The meta device stands in for the GPU: it has no values, so code that reads a value, copies one to
the host or mixes devices raises. The operations without a deterministic kernel are torch's list.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from focusing.callbacks import ClipFoci
from focusing.compose import config_dir, model_family
from focusing.config import Optim
from focusing.data.batches import Batches, move_if_fits
from focusing.nn.ops import fused
from focusing.training.module import FocusingModule
from focusing.training.trainer import build_net, build_trainer, load_data
from tests.unit.experiments.composed import checked
from tests.unit.training.fitting import OPTIONS, net, optim, trained

META = torch.device("meta")
MODELS = sorted(path.stem for path in (config_dir() / "model").glob("*.yaml"))
FORBIDDEN = {  # documented name: operations of it that have no deterministic kernel
    "torch.nn.AvgPool3d": ["avg_pool3d_backward"],
    "torch.nn.AdaptiveAvgPool2d": ["_adaptive_avg_pool2d_backward"],
    "torch.nn.AdaptiveAvgPool3d": ["_adaptive_avg_pool3d_backward"],
    "torch.nn.AdaptiveMaxPool2d": ["adaptive_max_pool2d_backward"],
    "torch.nn.FractionalMaxPool2d": ["fractional_max_pool2d_backward"],
    "torch.nn.FractionalMaxPool3d": ["fractional_max_pool3d_backward"],
    "torch.nn.MaxUnpool1d": ["max_unpool2d"],
    "torch.nn.MaxUnpool2d": ["max_unpool2d"],
    "torch.nn.MaxUnpool3d": ["max_unpool3d"],
    "torch.nn.functional.interpolate": [
        f"upsample_{kind}_backward" for kind in ("linear1d", "bilinear2d", "bicubic2d")
    ]
    + ["upsample_trilinear3d_backward"],
    "torch.nn.ReflectionPad1d": ["reflection_pad1d_backward"],
    "torch.nn.ReflectionPad2d": ["reflection_pad2d_backward"],
    "torch.nn.ReflectionPad3d": ["reflection_pad3d_backward"],
    "torch.nn.NLLLoss": ["nll_loss2d_forward"],  # of images; that of samples has no atomicAdd
    "torch.nn.CTCLoss": ["_ctc_loss_backward", "_cudnn_ctc_loss"],
    "torch.nn.EmbeddingBag": [],  # mode="max" only, which a test below rules out
    "torch.Tensor.put_": ["put_", "put"],
    "torch.histc": ["histc"],
    "torch.bincount": ["bincount"],
    "torch.median": ["median", "nanmedian"],
    "torch.nn.functional.grid_sample": ["grid_sampler_2d_backward", "grid_sampler_3d_backward"],
    "torch.cumsum": ["cumsum", "cumsum_"],
    "torch.Tensor.scatter_reduce": ["scatter_reduce", "scatter_reduce_"],
    "torch.Tensor.resize_": [],  # of quantized tensors
}


class OneDevice(TorchDispatchMode):
    """Records operations, and refuses those that mix devices or copy between them."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations.add(func.overloadpacket.__name__)
        used = [leaf for leaf in tree_leaves([args, kwargs, result]) if isinstance(leaf, Tensor)]
        assert len({leaf.device for leaf in used if leaf.dim()}) <= 1, func
        assert not any(leaf.is_cpu for leaf in used if leaf.dim()), f"{func} on the host"
        return result


def test_torchs_list_is_the_one_that_is_forbidden() -> None:
    text = torch.use_deterministic_algorithms.__doc__ or ""
    _, _, rest = text.partition("operations will throw a")
    listed, _, _ = rest.partition("In addition,")
    assert set(re.findall(r"\* :(?:class|func):`([\w.]+)`", listed)) == FORBIDDEN.keys()


@pytest.mark.parametrize("model", MODELS)
def test_a_step_of_every_network_is_deterministic_and_never_waits(
    model: str, tmp_path: Path
) -> None:
    kinds = {"vgg": "cifar10", "fasttext": "imdb", "transformer": "clt"}
    name = kinds.get(model_family(model), "mnist")
    config = checked(f"model={model}", f"data={name}", "size=smoke", "optim.clip_value=1")
    dataset = load_data(config)
    network = build_net(config, dataset)
    for layer in network.modules():
        assert not isinstance(layer, torch.nn.EmbeddingBag) or layer.mode == "mean"
    options = {"fused": False}  # the meta device has no such kernels
    optim = Optim(**{**config["optim"], "accumulate": 2, "batch_size": 8, "options": options})
    module = FocusingModule(network.to(META), optim)
    module.trainer = build_trainer(OPTIONS, tmp_path)
    module.trainer.fit_loop.max_batches = 1
    clip = ClipFoci()
    module.trainer.strategy.optimizers = [module.optimizer]
    clip.on_fit_start(module.trainer, module)
    batches = Batches(move_if_fits(dataset.train, META), 8, 0, limit=3, bundle=3, device=META)
    [bundle] = batches
    with OneDevice() as mode:
        module.train().training_step(bundle, 0)
    assert module.progress.batches == 3
    assert {"sigmoid", "_softmax", "_log_softmax", "binary_cross_entropy_with_logits"} & {
        *mode.operations
    }
    forbidden = {operation for names in FORBIDDEN.values() for operation in names}
    assert not mode.operations & forbidden


@pytest.mark.parametrize("normalizer", ["l2", "none"])
@pytest.mark.parametrize("axes", [1, 2])
def test_the_engine_of_torch_operations_never_waits(axes: int, normalizer: str) -> None:
    x, weight, bias = (torch.ones(*size, device=META) for size in ((5, 12), (4, 12), (4,)))
    mu, sigma = (torch.ones(4, axes, device=META).requires_grad_() for _ in range(2))
    tau, mask = torch.ones(12, axes, device=META), weight > 0
    with OneDevice():
        parameters = (x, weight.requires_grad_(), bias, mu, sigma)
        fused.focused_linear(*parameters, tau, mask, normalizer).sum().backward()
    assert mu.grad is not None


class Reads(TorchDispatchMode):
    """Counts what makes the host wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.count += name in ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_the_host_reads_once_an_epoch_and_not_once_a_step(tmp_path: Path, precision: str) -> None:
    counts = {}
    for size in (35, 7):  # 2 and 10 steps an epoch
        with Reads() as reads:
            trained(
                tmp_path / str(size),
                network=net(),
                settings=optim(batch_size=size, momentum=0.9, clip_value=1.0),
                callbacks=[ClipFoci()],
                epochs=2,
                precision=precision,
            )
        counts[size] = reads.count
    assert counts[35] == counts[7] > 0
