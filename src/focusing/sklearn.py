"""Scikit-learn estimators: ``FocusClassifier().fit(X, y).predict(X)``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from annotated_types import Gt, Lt
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax  # type: ignore[import-untyped]
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
from torch import Tensor

from focusing.config import AtLeastOne, NonNegative, Optim, Positive, Share, drops_last_batch
from focusing.instantiate import check_arguments
from focusing.models import MLP, focused_mlp
from focusing.nn import FocusConstraint
from focusing.training.metrics import loss_of
from focusing.training.optimizer import build_optimizer

Array = NDArray[Any]
MIN_HOLDOUT_SAMPLES = 10
"""With fewer training samples, none are held out."""


class Foci(NamedTuple):
    """Centres and apertures of the neurons of a layer: (n,) on a line, else (n, d)."""

    mu: Array
    sigma: Array


@dataclass(eq=False, repr=False)
class FocusEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of both estimators.

    Columns are standardised. Neurons look at neighbouring columns, so a meaningful order of the
    columns (pixels, times, bases) helps.

    Args:
        hidden_layer_sizes: neurons of the hidden layers, all of which focus; a number: one layer.
        mu: initial centres; see ``FocusedLinear``.
        sigma: initial apertures.
        topology: positions of the columns: None for a line, or a shape such as ``(8, 8)``.
        dropout: dropout probability after every hidden layer.
        learning_rate: learning rate of the weights (Adam).
        learning_rate_mu: learning rate of the centres.
        learning_rate_sigma: learning rate of the apertures.
        batch_size: batch size.
        drop_last: drop an incomplete last batch; ``"auto"`` drops one below a quarter of the batch
            size, as batch norm is unstable on a few samples.
        max_iter: maximum number of epochs.
        early_stopping: hold out some of the training data, stop when its loss stops improving, and
            keep the best epoch. With fewer than 10 samples the training loss is used.
        validation_fraction: fraction to hold out.
        n_iter_no_change: number of epochs without improvement before stopping.
        random_state: seed; an integer makes fits reproducible.

    Attributes:
        foci_: centres and apertures of every hidden layer.
        n_iter_: number of epochs.
        loss_curve_: training loss of every epoch.
        validation_curve_: held-out loss of every epoch; empty if nothing was held out.
        net_: the trained network for inference, with foci and batch norms folded into the weights.
    """

    hidden_layer_sizes: Sequence[AtLeastOne] | AtLeastOne = (100,)
    _: KW_ONLY
    mu: Any = "spread"
    sigma: Any = 0.25
    topology: Any = None
    dropout: Share = 0.0
    learning_rate: Positive = 0.01
    learning_rate_mu: NonNegative = 0.01
    learning_rate_sigma: NonNegative = 0.01
    batch_size: AtLeastOne = 32
    drop_last: Literal["auto", True, False] = "auto"
    max_iter: AtLeastOne = 100
    early_stopping: bool = True
    validation_fraction: Annotated[float, Gt(0), Lt(1)] = 0.1
    n_iter_no_change: AtLeastOne = 10
    random_state: Any = None

    def _check_options(self) -> list[int]:
        """Check the options, and return the sizes of the hidden layers."""
        check_arguments(FocusEstimator, self.get_params(deep=False))
        sizes: Any = self.hidden_layer_sizes
        sizes = list(sizes) if isinstance(sizes, Iterable) else [sizes]
        if not sizes:
            raise ValueError("hidden_layer_sizes is empty: give the neurons of a layer.")
        return [int(size) for size in sizes]

    def _fit(self, table: Array, targets: Array, outputs: int) -> None:
        """Train on a checked table (N, m) and classes (integers) or values (floats)."""
        if len(table) < 2:
            raise ValueError("n_samples=1: at least two samples are needed.")
        hidden = self._check_options()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        train, held = self._hold_out(targets, seed)
        # The network must not learn anything about held-out rows, not even their scale.
        self._mean, self._scale = _scale(table[train.numpy()])
        if targets.dtype.kind == "f":
            self._y_mean, self._y_scale = _scale(targets[train.numpy()])
            targets = ((targets - self._y_mean) / self._y_scale).astype(np.float32)
        x = torch.tensor((table - self._mean) / self._scale, dtype=torch.float32)
        y = torch.tensor(targets)
        with torch.random.fork_rng(devices=[]):  # restore the user's random state afterwards
            torch.manual_seed(seed)
            net = focused_mlp(
                table.shape[1],
                outputs,
                hidden=hidden,
                mu=self.mu,
                sigma=self.sigma,
                topology=self.topology,
                dropout=[self.dropout] * len(hidden),
            )
            self._train(net, x[train], y[train], None if held is None else (x[held], y[held]))
        self.foci_ = [
            Foci(*(values.detach().double().numpy().copy() for values in layer.foci))
            for layer in net.focused_layers().values()
        ]
        # In float64 the output of a sample does not depend on the rest of its batch.
        self.net_ = net.double().to_inference()

    def _hold_out(self, targets: Array, seed: int) -> tuple[Tensor, Tensor | None]:
        index = np.arange(len(targets))
        if not self.early_stopping or len(targets) < MIN_HOLDOUT_SAMPLES:
            return torch.from_numpy(index), None
        count = max(1, round(self.validation_fraction * len(targets)))
        _, sizes = np.unique(targets, return_counts=True)
        stratify = targets.dtype.kind == "i" and sizes.min() > 1 and count >= len(sizes)
        train, held = train_test_split(
            index, test_size=count, random_state=seed, stratify=targets if stratify else None
        )
        return torch.from_numpy(train), torch.from_numpy(held)

    def _train(self, net: MLP, x: Tensor, y: Tensor, held: tuple[Tensor, Tensor] | None) -> None:
        optim = Optim(
            name="Adam",
            lr=self.learning_rate,
            lr_mu=self.learning_rate_mu,
            lr_sigma=self.learning_rate_sigma,
        )
        optimizer = build_optimizer(net, optim)
        FocusConstraint(net, optimizer)
        self.loss_curve_: list[float] = []
        self.validation_curve_: list[float] = []
        best, best_state, waited = math.inf, None, 0
        for _ in range(self.max_iter):
            net.train()
            total, seen = 0.0, 0
            for batch in _batches(len(x), max(2, self.batch_size), self.drop_last):
                optimizer.zero_grad()
                loss = loss_of(net(x[batch]), y[batch])
                torch.autograd.backward(loss)
                optimizer.step()
                total += loss.item() * len(batch)
                seen += len(batch)
            self.loss_curve_.append(total / seen)
            if held is not None:
                with torch.no_grad():
                    self.validation_curve_.append(loss_of(net.eval()(held[0]), held[1]).item())
            now = (self.validation_curve_ or self.loss_curve_)[-1]
            if not math.isfinite(now):
                raise ValueError(f"The loss became {now}: try a smaller learning_rate.")
            waited += 1
            if now < best:
                best, waited = now, 0
                if held is not None:
                    best_state = {name: value.clone() for name, value in net.state_dict().items()}
            if self.early_stopping and waited >= self.n_iter_no_change:
                break
        self.n_iter_ = len(self.loss_curve_)
        if best_state is not None:
            net.load_state_dict(best_state)
        net.eval()

    @torch.no_grad()
    def _outputs(self, table: ArrayLike) -> Array:
        check_is_fitted(self)
        values = validate_data(self, table, reset=False, dtype=np.float64)
        outputs: Array = self.net_(torch.tensor((values - self._mean) / self._scale)).numpy()
        return outputs


class FocusClassifier(ClassifierMixin, FocusEstimator):  # type: ignore[misc]
    """A classifier whose neurons learn where to look.

    See :class:`FocusEstimator` for its options and attributes.

    Attributes:
        classes_: the classes.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> FocusClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
        True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> FocusClassifier:
        """Train on a table (N, m) and the classes of its rows."""
        table, classes = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(classes)
        self.classes_, numbers = np.unique(classes, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y has only one class: at least two are needed.")
        self._fit(table, numbers.astype(np.int64), len(self.classes_))
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities (N, classes)."""
        return np.asarray(softmax(self._outputs(X), axis=1))

    def predict(self, X: ArrayLike) -> Array:
        """The class of every row."""
        best = self._outputs(X).argmax(1)
        return np.asarray(self.classes_[best])


class FocusRegressor(RegressorMixin, FocusEstimator):  # type: ignore[misc]
    """A regressor whose neurons learn where to look.

    See :class:`FocusEstimator` for its options and attributes.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> FocusRegressor:
        """Train on a table (N, m) and the values of its rows."""
        table, values = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._constant = bool((values == values[0]).all())
        self._fit(table, values.astype(np.float64), 1)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The value of every row."""
        outputs = self._outputs(X)[:, 0]
        values: Array = outputs * (0.0 if self._constant else self._y_scale) + self._y_mean
        return values


def _scale(values: Array) -> tuple[Array, Array]:
    """Means and standard deviations of the columns; the deviation of a constant column is 1."""
    varies = values.max(0) > values.min(0)
    mean = np.where(varies, values.mean(0), values[0])  # rounding may change the mean of equals
    std = np.where(varies, values.std(0), 1.0)
    return mean, np.where(std > 0, std, 1.0)


def _batches(samples: int, size: int, drop_last: bool | str) -> list[Tensor]:
    """Shuffle sample indices into batches; none has a single sample, which batch norm rejects."""
    order = torch.randperm(samples)
    if drops_last_batch(drop_last, samples, size, batch_norm=True):
        order = order[: samples - samples % size]
    batches = list(torch.split(order, size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches
