"""SHAP values: which inputs decide the outputs of a trained network."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from annotated_types import Ge
from torch import Tensor, nn

from focusing.callbacks.analysis import Analysis
from focusing.callbacks.pruning_curve import folded
from focusing.data import Split
from focusing.errors import UserError
from focusing.results.arrays import write_arrays
from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)

FILE = "explanation.npz"
MAX_GAP = 0.2
"""Largest relative gap of values to be trusted; sampling alone causes a few hundredths."""
METHODS = {"deep": "DeepExplainer", "gradient": "GradientExplainer"}


class Explanation(Analysis):
    """Computes SHAP values of a few test samples with the shap library.

    It explains the outputs before the softmax of the folded network, which consists of plain layers
    that the library knows, with dropout off. The values of a sample should add up to the difference
    between its output and the mean output of the background. The record holds the gap, and a large
    gap causes a warning. ``deep`` is exact for simple, convolutional and VGG networks, but wrong
    where a ReLU is used twice (ResNet); ``gradient`` draws samples and is approximate.

    The record gets ``explanation``: ``method``, ``background``, ``targets``, the ``classes``
    explained for each sample, and the largest ``gap``, absolute and relative to the largest
    difference. The file ``explanation.npz`` holds ``inputs`` (N, ...), ``values`` (N, k, ...),
    ``classes`` (N, k), ``outputs`` (N, k), ``expected`` (N, k) and ``targets`` (N,).

    Args:
        samples: number of test samples: the first of each class, or just the first for regression.
        classes: number of classes to explain per sample, those with the highest outputs.
        background: number of training samples that replace missing inputs.
        method: ``"deep"`` or ``"gradient"``.
    """

    name = "explanation"

    def __init__(
        self,
        samples: Annotated[int, Ge(1)] = 5,
        classes: Annotated[int, Ge(1)] = 3,
        background: Annotated[int, Ge(2)] = 100,
        method: Literal["deep", "gradient"] = "deep",
    ) -> None:
        super().__init__()
        if find_spec("shap") is None:
            raise ValueError(
                "shap is not installed: pip install 'focusing[shap]', or leave it out."
            )
        self.samples, self.classes = samples, classes
        self.background, self.method = background, method

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Refuse networks whose inputs are tokens."""
        module: Any = pl_module
        embeddings = (nn.Embedding, nn.EmbeddingBag)
        if any(isinstance(layer, embeddings) for layer in module.net.modules()):
            raise UserError("callbacks.explanation: tokens have no SHAP values, use null.")

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Compute the values, write them to a file and check their sums."""
        train, test = module.batches["train"], module.batches["test"]
        background = train.evenly_spaced(self.background).inputs.float()
        chosen = test.take(first_of_each_class(test.split.targets, self.samples))
        chosen = Split(chosen.inputs.float(), chosen.targets)
        net = separate_activations(folded(module.net))
        with torch.no_grad():
            outputs, expected = net(chosen.inputs), net(background).mean(0)
        classes = outputs.topk(min(self.classes, outputs.shape[1]), dim=1).indices
        values = self._explain(net, background, chosen.inputs, classes.shape[1])
        outputs = outputs.gather(1, classes).cpu()
        expected = expected.cpu().expand(len(outputs), -1).gather(1, classes.cpu())
        difference = outputs - expected
        gap = (values.flatten(2).sum(2) - difference).abs().max().item()
        relative = gap / max(difference.abs().max().item(), 1e-12)
        if relative > MAX_GAP:
            log.warning(
                "The SHAP values miss the outputs they should add up to by %.0f %%: do not trust "
                "them. Try callbacks.explanation.method=gradient.",
                100 * relative,
            )
        arrays = {
            "inputs": chosen.inputs,
            "values": values,
            "classes": classes,
            "outputs": outputs,
            "expected": expected,
            "targets": chosen.targets,
        }
        write_arrays(folder / FILE, {name: array.cpu().numpy() for name, array in arrays.items()})
        return {
            "method": self.method,
            "background": len(background),
            "targets": chosen.targets.tolist(),
            "classes": classes.tolist(),
            "gap": {"largest": gap, "relative": relative},
            "file": FILE,
        }

    def _explain(self, net: nn.Module, background: Tensor, inputs: Tensor, outputs: int) -> Tensor:
        """SHAP values (N, k, *) of the k highest outputs."""
        with warnings.catch_warnings(), _nondeterministic():
            warnings.simplefilter("ignore")  # from numba, and about layers that only reshape
            explainer = getattr(import_module("shap"), METHODS[self.method])(net, background)
            # Record the gap instead of raising an error.
            options = {"check_additivity": False} if self.method == "deep" else {}
            if net(inputs[:1]).shape[1] == 1:  # the library cannot rank a single output
                values = explainer.shap_values(inputs, **options)
            else:
                values, _ = explainer.shap_values(inputs, ranked_outputs=outputs, **options)
        return torch.as_tensor(values).float().movedim(-1, 1)  # from (N, ..., k)


@contextmanager
def _nondeterministic() -> Iterator[None]:
    """Allow nondeterministic algorithms: shap uses unpooling."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def first_of_each_class(targets: Tensor, count: int) -> Tensor:
    """Indices of the first sample of each class, at most ``count``, in ascending order.

    For regression: indices of the first samples.
    """
    if targets.is_floating_point():
        return torch.arange(min(count, len(targets)))
    _, first = np.unique(targets.cpu(), return_index=True)
    return torch.from_numpy(np.sort(first)[:count])


def separate_activations(net: nn.Module) -> nn.Module:
    """Replace each ReLU by a new one that is not in-place, as DeepExplainer requires."""
    for parent in list(net.modules()):
        for name, child in parent._modules.items():
            if isinstance(child, nn.ReLU):
                setattr(parent, name, nn.ReLU())
    return net
