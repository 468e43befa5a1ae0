"""Many small networks as one: every tensor has a leading dimension, and no autograd.

A step of a small network is nearly all calls. Here a call serves all trials of a stack, and the
dense and the focused network of a trial, which see the same batches, are rows of one matrix.
Activations are laid out (networks, neurons, samples), so that neurons stay rows all the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from focusing.nn import FocusedLinear
from focusing.nn.focus import FAINTEST, NORMALIZERS

NOWHERE = -1e30
"""Bias of outputs that a trial with fewer classes than others in its stack does not have."""


class Rates(NamedTuple):
    """How the two networks of a trial learn."""

    lr: float
    lr_mu: float
    lr_sigma: float
    l2: float


class Stack:
    """A dense and a focused network for each of T trials, trained together by SGD.

    All have one hidden layer, of n neurons with batch norm, and m inputs. Biases before a batch
    norm are nothing, and stay so: it takes them away again, and they have no gradient. The weights
    of the networks are copied in; :meth:`state` is what training made of them.

    Args:
        dense: T networks without focus.
        focused: T networks with a normalised gaussian focus on a line.
        rates: of each trial.
        momentum: of all.
        device: where to train.

    Attributes:
        mu: centres, (T, n, 1).
        sigma: apertures, (T, n, 1).
        steps: made so far.
    """

    def __init__(
        self,
        dense: Sequence[nn.Module],
        focused: Sequence[nn.Module],
        rates: Sequence[Rates],
        momentum: float,
        device: torch.device,
    ) -> None:
        focus, norm = focused[0].hidden1, focused[0].norm1
        assert isinstance(focus, FocusedLinear)  # noqa: S101 - for the type checker
        assert isinstance(norm, nn.BatchNorm1d)  # noqa: S101
        scheme = NORMALIZERS[focus.normalizer]
        assert scheme is not None  # noqa: S101 - see check_stackable
        self._normalizer = scheme
        self.trials, self.momentum, self.steps = len(dense), momentum, 0
        self.neurons, self.inputs = focus.weight.shape
        self.eps, self.forget = norm.eps, norm.momentum or 0.0
        self.tau = focus.tau.to(device).t()
        self._outputs = [len(net.get_parameter("output.bias")) for net in dense]
        self.classes = max(self._outputs)
        self._load(dense, focused, device)
        self._set_rates(rates, (focus.mu.requires_grad, focus.sigma.requires_grad))
        bounds = torch.tensor([focus.mu_range, focus.sigma_range]).to(self._foci)
        self._bounds = bounds.repeat_interleave(len(self._foci) // 2, 0).unbind(1)
        self._nothing = self.sigma.new_zeros(())
        self._rooms: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def _load(
        self, dense: Sequence[nn.Module], focused: Sequence[nn.Module], device: torch.device
    ) -> None:
        t, n, m = self.trials, self.neurons, self.inputs
        both = [net.state_dict() for pair in zip(dense, focused, strict=True) for net in pair]

        def together(name: str, states: Sequence[Mapping[str, Tensor]] = both) -> Tensor:
            tensors = [state[name] for state in states]
            if name.startswith("output"):
                tensors = [_lengthen(each, self.classes, name.endswith("bias")) for each in tensors]
            return torch.stack(tensors).to(device)

        # The weights that act: W of the dense rows, phi o W of the focused ones.
        self._act = together("hidden1.weight").view(t, 2 * n, m)
        self._dense, self._seen = self._act[:, :n], self._act[:, n:]
        self._focused = self._seen.clone()
        self._velocity = torch.zeros_like(self._act)
        self._phi, self._share, self._u = (torch.empty_like(self._focused) for _ in range(3))
        self.mean, self.var = (
            together(f"norm1.running_{it}").view(t, 2 * n, 1) for it in ("mean", "var")
        )
        names = ("norm1.weight", "norm1.bias", "output.weight", "output.bias")
        small = {name: together(name) for name in names}
        small |= {name: together(name, both[1::2]) for name in ("hidden1.mu", "hidden1.sigma")}
        # All other parameters in one vector: one call each for what the optimizer does.
        self._small = torch.cat([each.flatten() for each in small.values()])
        self._small_velocity = torch.zeros_like(self._small)
        sizes = [each.numel() for each in small.values()]
        views = torch.split(self._small, sizes)
        self._sizes = dict(zip(small, sizes, strict=True))
        self.gain, self.shift = (each.view(t, 2 * n, 1) for each in views[:2])
        self.out_weight = views[2].view(2 * t, self.classes, n)
        self.out_bias = views[3].view(2 * t, self.classes, 1)
        self.mu, self.sigma = (each.view(t, n, 1) for each in views[4:])
        self._foci = self._small[-2 * t * n :]

    def _set_rates(self, rates: Sequence[Rates], trained: tuple[bool, bool]) -> None:
        columns = torch.tensor(rates, dtype=torch.float64).to(self._small)
        lr, lr_mu, lr_sigma, l2 = columns.view(-1, 4, 1).unbind(1)
        moves = {"hidden1.mu": lr_mu * trained[0], "hidden1.sigma": lr_sigma * trained[1]}
        each = [
            -moves.get(name, lr).expand(self.trials, size // self.trials).flatten()
            for name, size in self._sizes.items()
        ]
        self._small_lr, self._lr = torch.cat(each), -lr.unsqueeze(2)
        # The gradient of l2 * w^2, as in focusing.training.optimizer.
        self._l2 = 2 * l2.unsqueeze(2)
        self._out_l2 = self._l2.repeat_interleave(2, 0)
        self._penalised = bool(l2.any())

    def look(self) -> None:
        """Compute the weights that act from the foci as they are now."""
        u, share = self._u, self._share
        torch.sub(self.tau, self.mu, out=u).div_(self.sigma)
        # A normalised gaussian is a softmax or the root of one, as in focusing.nn.product.
        order, power = self._normalizer
        torch.addcmul(self._nothing, u, u, value=-order / 2, out=share)
        torch.softmax(share, -1, out=share).clamp_min_(FAINTEST**order)
        phi = torch.sqrt(share, out=self._phi) if order == 2 else self._phi.copy_(share)
        phi.mul_(self.inputs ** (power / order))
        torch.mul(self._phi, self._focused, out=self._seen)

    def step(self, x: Tensor, targets: Tensor) -> Tensor:
        """One step of every network.

        Args:
            x: (T, b, m).
            targets: the classes as unit vectors, (T, 1, C, b).

        Returns:
            The outputs before the step, (2T, C, b).
        """
        t, n, b = self.trials, self.neurons, x.shape[1]
        # Three arrays for all that is as large as the activations, to stay in the CPU's cache.
        y, h, d = self._room(b)
        self.look()
        torch.bmm(self._act, x.transpose(1, 2), out=y)
        mean = y.mean(2, keepdim=True)
        y.sub_(mean)
        var = torch.mul(y, y, out=h).mean(2, keepdim=True)
        spread = (var + self.eps).rsqrt_()
        scale = self.gain * spread
        torch.mul(y, scale, out=h).add_(self.shift).relu_()
        self.mean.lerp_(mean, self.forget)
        self.var.lerp_(var.mul_(b / (b - 1)), self.forget)
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
        d_gain = torch.mul(d, y, out=h).sum(2, keepdim=True).mul_(spread)
        d.sub_(d_shift / b).addcmul_(y, spread * d_gain / -b).mul_(scale)
        d_act = torch.bmm(d, x)
        d_mu, d_sigma = self._focus_backward(d_act[:, n:])
        if self._penalised:
            d_out_weight.addcmul_(self.out_weight, self._out_l2)
            d_act[:, :n].addcmul_(self._dense, self._l2)
            d_act[:, n:].addcmul_(self._focused, self._l2)
        parts = [d_gain, d_shift, d_out_weight, d_output.sum(2), d_mu, d_sigma]
        self._update(d_act, torch.cat([each.flatten() for each in parts]))
        return output

    def _room(self, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Memory for three (T, 2n, b)."""
        if batch not in self._rooms:
            shape = (self.trials, 2 * self.neurons, batch)
            one, two, three = (self._act.new_empty(shape) for _ in range(3))
            self._rooms[batch] = one, two, three
        return self._rooms[batch]

    def _focus_backward(self, d_seen: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of mu and sigma; that of phi o W becomes that of W."""
        change = d_seen * self._seen
        change.addcmul_(self._share, change.sum(2, keepdim=True), value=-1)  # the normaliser
        d_mu = change.mul_(self._u).sum(2, keepdim=True).div_(self.sigma)
        d_sigma = change.mul_(self._u).sum(2, keepdim=True).div_(self.sigma)
        d_seen.mul_(self._phi)
        return d_mu, d_sigma

    def _update(self, d_weight: Tensor, d_small: Tensor) -> None:
        torch.add(d_weight, self._velocity, alpha=self.momentum, out=self._velocity)
        self._dense.addcmul_(self._velocity[:, : self.neurons], self._lr)
        self._focused.addcmul_(self._velocity[:, self.neurons :], self._lr)
        torch.add(d_small, self._small_velocity, alpha=self.momentum, out=self._small_velocity)
        self._small.addcmul_(self._small_velocity, self._small_lr)
        self._foci.clamp_(*self._bounds)
        self.steps += 1

    def outputs(self, x: Tensor) -> Tensor:
        """The outputs in eval mode, (2T, C, b), for x (T, b, m); call :meth:`look` before."""
        y, h, _ = self._room(x.shape[1])
        torch.bmm(self._act, x.transpose(1, 2), out=y)
        scale = self.gain * (self.var + self.eps).rsqrt_()
        torch.mul(y, scale, out=h).add_(self.shift - self.mean * scale).relu_()
        return torch.baddbmm(
            self.out_bias, self.out_weight, h.view(2 * self.trials, self.neurons, -1)
        )

    def state(self, trial: int, *, focused: bool) -> dict[str, Tensor]:
        """What ``load_state_dict`` of a network takes; copies on the CPU."""
        row, classes = 2 * trial + focused, self._outputs[trial]
        weight = (self._focused if focused else self._dense)[trial]
        rows = {
            "norm1.weight": self.gain,
            "norm1.bias": self.shift,
            "norm1.running_mean": self.mean,
            "norm1.running_var": self.var,
        }
        found = {
            "hidden1.weight": weight,
            "hidden1.bias": weight.new_zeros(self.neurons),
            **{name: each.view(-1, self.neurons)[row] for name, each in rows.items()},
            "norm1.num_batches_tracked": torch.tensor(self.steps),
            "output.weight": self.out_weight[row, :classes],
            "output.bias": self.out_bias[row, :classes, 0],
        }
        if focused:
            found |= {"hidden1.mu": self.mu[trial], "hidden1.sigma": self.sigma[trial]}
        return {name: each.cpu().clone() for name, each in found.items()}


def _lengthen(values: Tensor, classes: int, bias: bool) -> Tensor:
    missing = values.new_full((classes - len(values), *values.shape[1:]), NOWHERE if bias else 0.0)
    return torch.cat([values, missing])
