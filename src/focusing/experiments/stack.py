"""Trains many small networks as one, with a leading dimension on every tensor and no autograd.

A step of a small network is almost all call overhead. Here one call serves all trials of a stack.
The dense and the focused network of a trial see the same batches and are rows of one matrix.
Activations have the layout (networks, neurons, samples), so that neurons stay rows throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from focusing.config import drops_last_batch
from focusing.data import Batches, Split
from focusing.nn import FocusedLinear
from focusing.nn.focus import MIN_PHI, NORMALIZERS

MASKED_BIAS = -1e30
"""Bias of outputs that a trial does not have, because others in its stack have more classes."""
EVALUATION_BATCH = 1024
RATES = ("lr", "lr_mu", "lr_sigma", "l2")
"""Options of the optimizer that may differ between the trials of a stack."""
CHOSEN_BY = {"best_test": "test/acc", "holdout": "val/acc", "last": None}
"""Protocol -> the metric that chooses the epoch whose weights are kept."""
State = dict[str, Tensor]


def trial_bytes(
    inputs: int, neurons: int, classes: int, samples: int, batch: int, itemsize: int
) -> int:
    """Return the most bytes that a trial takes on the device while :func:`fit_stack` trains it.

    Args:
        inputs: inputs of a network, m.
        neurons: neurons of its hidden layer, n.
        classes: the most classes of any trial in the stack.
        samples: of all splits together.
        batch: batch size.
        itemsize: bytes of a number.
    """
    weights = 11 * neurons * inputs  # of both networks, with velocities, foci and gradients
    small = 8 * neurons * (classes + 4)
    # Whole and last batches have three arrays each: in training, and for each of two test splits.
    rows = 2 * batch + min(samples, 3 * EVALUATION_BATCH)
    activations = 6 * neurons * rows + batch * inputs
    data = samples * inputs + 8 * samples * (classes + 2)  # with outputs and temporaries of scores
    return itemsize * (weights + small + activations + data) + 8 * samples * (classes + 4)


class Stack:
    """A dense and a focused network for each of T trials, trained together by SGD.

    All have m inputs and one hidden layer of n neurons with batch norm. The biases before a batch
    norm are 0 and stay so: the norm cancels them, and they have no gradient. The weights are
    copied from the networks; :meth:`state` returns the trained ones.

    Args:
        dense: T networks without focus.
        focused: T networks with a normalised gaussian focus on a line.
        optims: optimizer options of each trial; they may differ in ``RATES`` only.
        device: where to train.

    Attributes:
        mu: centres, (T, n, 1).
        sigma: apertures, (T, n, 1).
        steps: number of steps so far.
    """

    def __init__(
        self,
        dense: Sequence[nn.Module],
        focused: Sequence[nn.Module],
        optims: Sequence[Mapping[str, Any]],
        device: torch.device,
    ) -> None:
        focus, norm = focused[0].hidden1, focused[0].norm1
        assert isinstance(focus, FocusedLinear)  # noqa: S101 - for the type checker
        assert isinstance(norm, nn.BatchNorm1d)  # noqa: S101
        scheme = NORMALIZERS[focus.normalizer]
        assert scheme is not None  # noqa: S101 - see check_stackable
        self._normalizer = scheme
        self.trials, self.momentum, self.steps = len(dense), optims[0]["momentum"], 0
        self.neurons, self.inputs = focus.weight.shape
        self.eps, self.norm_momentum = norm.eps, norm.momentum or 0.0
        self.tau = focus.tau.to(device).t()
        self._outputs = [len(net.get_parameter("output.bias")) for net in dense]
        self.classes = max(self._outputs)
        self._load(dense, focused, device)
        self._set_rates(optims, (focus.mu.requires_grad, focus.sigma.requires_grad))
        bounds = torch.tensor([focus.mu_range, focus.sigma_range]).to(self._foci)
        self._bounds = bounds.repeat_interleave(len(self._foci) // 2, 0).unbind(1)
        self._zero = self.sigma.new_zeros(())
        self._workspaces: dict[int, list[Tensor]] = {}

    def _load(
        self, dense: Sequence[nn.Module], focused: Sequence[nn.Module], device: torch.device
    ) -> None:
        t, n, m = self.trials, self.neurons, self.inputs
        both = [net.state_dict() for pair in zip(dense, focused, strict=True) for net in pair]

        def stacked(name: str, states: Sequence[Mapping[str, Tensor]] = both) -> Tensor:
            tensors = [state[name] for state in states]
            if name.startswith("output"):
                fill = MASKED_BIAS if name.endswith("bias") else 0.0
                return pad_sequence(tensors, batch_first=True, padding_value=fill).to(device)
            return torch.stack(tensors).to(device)

        # Effective weights: W in dense rows, phi o W in focused ones.
        self._effective = stacked("hidden1.weight").view(t, 2 * n, m)
        self._dense, self._effective_focused = self._effective[:, :n], self._effective[:, n:]
        self._focused = self._effective_focused.clone()
        self._velocity = torch.zeros_like(self._effective)
        self._phi, self._share, self._u = (torch.empty_like(self._focused) for _ in range(3))
        self.mean, self.var = (
            stacked(f"norm1.running_{it}").view(t, 2 * n, 1) for it in ("mean", "var")
        )
        names = ("norm1.weight", "norm1.bias", "output.weight", "output.bias")
        small = {name: stacked(name) for name in names}
        small |= {name: stacked(name, both[1::2]) for name in ("hidden1.mu", "hidden1.sigma")}
        # All other parameters are views of one vector, so that one call updates them.
        self._small = torch.cat([tensor.flatten() for tensor in small.values()])
        self._small_velocity = torch.zeros_like(self._small)
        sizes = [tensor.numel() for tensor in small.values()]
        views = torch.split(self._small, sizes)
        self._sizes = dict(zip(small, sizes, strict=True))
        self.gain, self.shift = (view.view(t, 2 * n, 1) for view in views[:2])
        self.out_weight = views[2].view(2 * t, self.classes, n)
        self.out_bias = views[3].view(2 * t, self.classes, 1)
        self.mu, self.sigma = (view.view(t, n, 1) for view in views[4:])
        self._foci = self._small[-2 * t * n :]

    def _set_rates(self, optims: Sequence[Mapping[str, Any]], trained: tuple[bool, bool]) -> None:
        rates = [[float(optim[name]) for name in RATES] for optim in optims]
        columns = torch.tensor(rates, dtype=torch.float64).to(self._small)
        lr, lr_mu, lr_sigma, l2 = columns.view(-1, 4, 1).unbind(1)
        own = {"hidden1.mu": lr_mu * trained[0], "hidden1.sigma": lr_sigma * trained[1]}
        small_lr = [
            -own.get(name, lr).expand(self.trials, size // self.trials).flatten()
            for name, size in self._sizes.items()
        ]
        self._small_lr, self._lr = torch.cat(small_lr), -lr.unsqueeze(2)
        # The gradient of l2 * w^2, as in focusing.training.optimizer.
        self._l2 = 2 * l2.unsqueeze(2)
        self._out_l2 = self._l2.repeat_interleave(2, 0)
        self._penalised = bool(l2.any())

    def update_weights(self) -> None:
        """Compute the effective weights from the current foci."""
        u, share = self._u, self._share
        torch.sub(self.tau, self.mu, out=u).div_(self.sigma)
        # A normalised gaussian is a softmax or the root of one, as in focusing.nn.
        order, power = self._normalizer
        torch.addcmul(self._zero, u, u, value=-order / 2, out=share)
        torch.softmax(share, -1, out=share).clamp_min_(MIN_PHI**order)
        phi = torch.sqrt(share, out=self._phi) if order == 2 else self._phi.copy_(share)
        phi.mul_(self.inputs ** (power / order))
        torch.mul(self._phi, self._focused, out=self._effective_focused)

    def step(self, x: Tensor, targets: Tensor) -> Tensor:
        """Take one training step with every network.

        Args:
            x: inputs, (T, b, m).
            targets: one-hot classes, (T, 1, C, b).

        Returns:
            The outputs before the step, (2T, C, b).
        """
        t, n, b = self.trials, self.neurons, x.shape[1]
        # Only three arrays are as large as the activations, so that they stay in the CPU's cache.
        y, h, d = self._workspace(b)
        self.update_weights()
        torch.bmm(self._effective, x.transpose(1, 2), out=y)
        mean = y.mean(2, keepdim=True)
        y.sub_(mean)
        var = torch.mul(y, y, out=h).mean(2, keepdim=True)
        inv_std = (var + self.eps).rsqrt_()
        scale = self.gain * inv_std
        torch.mul(y, scale, out=h).add_(self.shift).relu_()
        self.mean.lerp_(mean, self.norm_momentum)
        self.var.lerp_(var.mul_(b / (b - 1)), self.norm_momentum)
        h, d = h.view(2 * t, n, b), d.view(2 * t, n, b)
        output = torch.baddbmm(self.out_bias, self.out_weight, h)

        d_output = output.softmax(1)
        d_output.view(t, 2, -1, b).sub_(targets)
        d_output.mul_(1 / b)
        d_out_weight = torch.bmm(d_output, h.transpose(1, 2))
        torch.bmm(self.out_weight.transpose(1, 2), d_output, out=d)
        torch.ops.aten.threshold_backward.grad_input(d, h, 0, grad_input=d)
        h, d = h.view_as(y), d.view_as(y)
        d_shift = d.sum(2, keepdim=True)
        d_gain = torch.mul(d, y, out=h).sum(2, keepdim=True).mul_(inv_std)
        d.sub_(d_shift / b).addcmul_(y, inv_std * d_gain / -b).mul_(scale)
        d_effective = torch.bmm(d, x)
        d_mu, d_sigma = self._focus_backward(d_effective[:, n:])
        if self._penalised:
            d_out_weight.addcmul_(self.out_weight, self._out_l2)
            d_effective[:, :n].addcmul_(self._dense, self._l2)
            d_effective[:, n:].addcmul_(self._focused, self._l2)
        small = [d_gain, d_shift, d_out_weight, d_output.sum(2), d_mu, d_sigma]
        self._update(d_effective, torch.cat([gradient.flatten() for gradient in small]))
        return output

    def _workspace(self, batch: int) -> list[Tensor]:
        """Return memory for three arrays (T, 2n, b)."""
        if batch not in self._workspaces:
            shape = (self.trials, 2 * self.neurons, batch)
            self._workspaces[batch] = [self._effective.new_empty(shape) for _ in range(3)]
        return self._workspaces[batch]

    def _focus_backward(self, d_weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of mu and sigma; in place, turn that of phi o W into that of W."""
        change = d_weight * self._effective_focused
        change.addcmul_(self._share, change.sum(2, keepdim=True), value=-1)  # the normaliser
        d_mu = change.mul_(self._u).sum(2, keepdim=True).div_(self.sigma)
        d_sigma = change.mul_(self._u).sum(2, keepdim=True).div_(self.sigma)
        d_weight.mul_(self._phi)
        return d_mu, d_sigma

    def _update(self, d_weight: Tensor, d_small: Tensor) -> None:
        """Update by SGD with momentum, then clip the foci."""
        torch.add(d_weight, self._velocity, alpha=self.momentum, out=self._velocity)
        self._dense.addcmul_(self._velocity[:, : self.neurons], self._lr)
        self._focused.addcmul_(self._velocity[:, self.neurons :], self._lr)
        torch.add(d_small, self._small_velocity, alpha=self.momentum, out=self._small_velocity)
        self._small.addcmul_(self._small_velocity, self._small_lr)
        self._foci.clamp_(*self._bounds)
        self.steps += 1

    def outputs(self, x: Tensor) -> Tensor:
        """Return outputs (2T, C, b) in eval mode for x (T, b, m), with the last weights."""
        y, h, _ = self._workspace(x.shape[1])
        torch.bmm(self._effective, x.transpose(1, 2), out=y)
        scale = self.gain * (self.var + self.eps).rsqrt_()
        torch.mul(y, scale, out=h).add_(self.shift - self.mean * scale).relu_()
        return torch.baddbmm(
            self.out_bias, self.out_weight, h.view(2 * self.trials, self.neurons, -1)
        )

    def foci(self) -> Tensor:
        """Return a copy of mu and sigma, (2, T, n, 1), on the CPU."""
        return torch.stack([self.mu, self.sigma]).float().cpu()

    def state(self, row: int) -> State:
        """Return the ``state_dict`` of a network, copied to the CPU.

        Args:
            row: 2t for the dense network of trial t, 2t + 1 for the focused one.
        """
        trial, focused = divmod(row, 2)
        classes = self._outputs[trial]
        weight = (self._focused if focused else self._dense)[trial]
        norm = {
            "norm1.weight": self.gain,
            "norm1.bias": self.shift,
            "norm1.running_mean": self.mean,
            "norm1.running_var": self.var,
        }
        state = {
            "hidden1.weight": weight,
            "hidden1.bias": weight.new_zeros(self.neurons),
            **{name: tensor.view(-1, self.neurons)[row] for name, tensor in norm.items()},
            "norm1.num_batches_tracked": torch.tensor(self.steps),
            "output.weight": self.out_weight[row, :classes],
            "output.bias": self.out_bias[row, :classes, 0],
        }
        if focused:
            state |= {"hidden1.mu": self.mu[trial], "hidden1.sigma": self.sigma[trial]}
        return {name: tensor.cpu().clone() for name, tensor in state.items()}


@dataclass
class History:
    """Metrics and foci of a stack while it trains.

    Row 2t is the dense network of trial t, row 2t + 1 the focused one.

    Attributes:
        series: metric -> values of all rows per epoch; ``focus/sigma_mean`` has one per trial.
        foci: mu and sigma, (2, T, n, 1), at the start and after each epoch.
        best: for each row, the best value of the metric that chooses, and the state at that epoch.
        test_outputs: of the last epoch, (2T, C, samples).
    """

    series: dict[str, list[Tensor]] = field(default_factory=dict)
    foci: list[Tensor] = field(default_factory=list)
    best: list[tuple[float, State]] = field(default_factory=list)
    test_outputs: Tensor | None = None


@torch.inference_mode()
def fit_stack(
    stack: Stack, train: Split, evaluated: Mapping[str, Split], config: Mapping[str, Any]
) -> History:
    """Train a stack, and score it after every epoch.

    Args:
        stack: the networks.
        train: inputs (T, N, m) and targets (T, N), on the stack's device.
        evaluated: the splits that are scored after each epoch, by name.
        config: of any run; all share epochs, batches, seed and protocol.
    """
    history = History(foci=[stack.foci()], best=[(-1.0, {})] * (2 * stack.trials))
    optim, trainer = config["optim"], config["trainer"]
    chosen_by = CHOSEN_BY[config["protocol"]["name"]]
    numbers, batch_size = torch.arange(train.targets.shape[1]), optim["batch_size"]
    orders = Batches(  # the same batches as in a single run
        Split(numbers, numbers),
        batch_size,
        config["seed"] if optim["shuffle"] else None,
        trainer["limit_batches"],
        bundle=len(numbers) // batch_size + 1,  # a whole epoch at a time
        drop_last=drops_last_batch(optim["drop_last"], len(numbers), batch_size, batch_norm=True),
    )
    device, epochs = train.targets.device, trainer["max_epochs"]
    for epoch in range(epochs):
        orders.epoch = epoch
        [order] = [split.targets.to(device) for split in orders]
        targets = train.targets.index_select(1, order)
        one_hot = functional.one_hot(targets, stack.classes).movedim(2, 1).unsqueeze(1)
        batches = torch.split(order, batch_size)
        labels = torch.split(one_hot.to(train.inputs), batch_size, 3)
        outputs = [
            stack.step(train.inputs.index_select(1, index), label)
            for index, label in zip(batches, labels, strict=True)
        ]
        scores = _score("train", outputs, targets)
        stack.update_weights()
        for name, split in evaluated.items():
            outputs = [stack.outputs(x) for x in torch.split(split.inputs, EVALUATION_BATCH, 1)]
            scores |= _score(name, outputs, split.targets)
            if name == "test" and epoch == epochs - 1:
                history.test_outputs = torch.cat(outputs, 2).cpu()
        scores["focus/sigma_mean"] = stack.sigma.mean((1, 2))
        for name, values in scores.items():
            history.series.setdefault(name, []).append(values.double().cpu())
        history.foci.append(stack.foci())
        if chosen_by is not None:
            for row, value in enumerate(history.series[chosen_by][-1].tolist()):
                if value > history.best[row][0]:
                    history.best[row] = (value, stack.state(row))
    return history


def _score(name: str, outputs: list[Tensor], targets: Tensor) -> dict[str, Tensor]:
    """Return loss and accuracy of each network, from batches of outputs (2T, C, b)."""
    output = torch.cat(outputs, 2)
    output = output.view(-1, 2, *output.shape[1:])
    # Faster than argmax and logsumexp, which are slow along any axis but the last.
    best, chosen = output[:, :, 0].clone(), torch.zeros_like(output[:, :, 0], dtype=torch.int8)
    for number in range(1, output.shape[2]):
        one = output[:, :, number]
        chosen.masked_fill_(one > best, number)
        torch.maximum(best, one, out=best)
    picked = output.gather(2, targets[:, None, None].expand(-1, 2, -1, -1)).squeeze(2)
    log_sum = (output - best.unsqueeze(2)).exp_().sum(2).log_()
    accuracy = (chosen == targets[:, None]).sum(2).double() / targets.shape[1]
    loss = (log_sum + best - picked).mean(2)
    return {f"{name}/loss": loss.flatten(), f"{name}/acc": accuracy.flatten()}
