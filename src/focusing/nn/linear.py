"""The focusing neuron as a layer."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from focusing.nn.focus import FOCUS_FUNCTIONS, NORMALIZERS
from focusing.nn.init import WEIGHT_SCHEMES, Mu, Sigma, initial_mu, initial_sigma, weight_bound
from focusing.nn.ops import (
    BACKENDS,
    FORMER_NAMES,
    PLAIN_TYPES,
    cpu,
    fused,
    is_compiling,
    is_tracing,
    record_call,
    triton_runs_on,
)
from focusing.nn.ops.functional import check_choice, check_count, focus_coefficients, focused_linear
from focusing.nn.positions import GRIDS, Topology, positions, read_topology
from focusing.nn.sparse import BandedLinear

fx.wrap("focused_linear")  # which asks for shapes: torch.fx records one call of it

CPU_BACKENDS, GPU_BACKENDS = ("auto", "numba", "numba_banded"), ("auto", "triton")

MIN_BANDED_WEIGHTS = 2**15
"""Below this many weights a layer's time goes into calls, not into arithmetic."""


class FociView(NamedTuple):
    """Centres and apertures, (n,) on a line and (n, d) elsewhere; views of the parameters."""

    mu: Tensor
    sigma: Tensor


class FocusedLinear(nn.Module):
    r"""A linear layer whose neurons learn where to look (Tek, Algorithms 1 and 2).

    .. math::
        y = x (\Phi \circ W)^T + b, \qquad
        \phi_{ji} = s_j \, e^{-|(\tau_i - \mu_j) / \sigma_j|^2 / 2}, \qquad
        s_j = \sqrt{m} \, / \, \|g_j\|_2

    where :math:`g` is the exponential. The centre :math:`\mu` and the aperture :math:`\sigma` of
    each neuron are trained beside its weights; call :meth:`constrain_` after each optimizer step,
    or let :class:`~focusing.FocusConstraint` do it.

    Args:
        in_features: number of inputs m.
        out_features: number of neurons n.
        bias: learn an additive bias, which starts at zero.
        topology: where the inputs are. None: on a line, as in the paper; a shape such as
            ``(28, 28)``, ``(32, 32, 3)`` whose channels share a position, ``(D, H, W)`` or, with
            many channels, ``((14, 14), 32)``; or a tensor (m, d) of positions in [0, 1].
        grid: positions along each axis of m inputs, ``"linspace"`` (i / (m - 1), from 0 to 1) or
            ``"index"`` (i / m, as in the paper's Eq. focus and the author's code of 2018).
        focus: ``"gaussian"``, ``"negated_gaussian"``, ``"gaussian_derivative"``, ``"triangle"`` or
            ``"bernoulli"`` (connections drawn with the gaussian's probability in training, their
            expectation in eval mode).
        mu: initial centres: ``"spread"`` (.2 to .8), ``"center"``, ``"center_jitter"`` (+-.025),
            ``"random"``, a number, or a tensor (n,) or (n, d).
        sigma: initial apertures: a number, a range (low, high) to draw from, or a tensor.
        train_mu: whether mu has a gradient.
        train_sigma: whether sigma has a gradient.
        init: weights: ``"focus_glorot"``, ``"glorot"`` (that of a plain layer), ``"he"`` or
            ``"per_connection"``.
        sigma_range: where :meth:`constrain_` keeps sigma.
        mu_range: where :meth:`constrain_` keeps mu.
        normalizer: ``"l2"`` (the paper's Eq. for s), ``"sum"`` (Algorithm 2 as printed),
            ``"mean"`` (the mean of phi is 1, as in the author's code of 2018) or ``"none"``.
        backend: what computes the product, always with the same result: ``"reference"`` (plain
            autograd), ``"torch"`` (fewer passes), ``"numba"`` (compiled loops on the CPU),
            ``"numba_banded"`` (the same, only over inputs that the foci reach), ``"triton"``
            (kernels on a GPU); ``"auto"`` chooses by device, shape and foci. All but reference
            cover the gaussian and first derivatives; elsewhere reference is used, and torch where
            numba or Triton cannot serve.
        cutoff: bands leave out inputs whose coefficient is below this share of the neuron's
            largest.
        device: device of the parameters.
        dtype: type of the parameters.

    Shape:
        - Input: (*, m) with any number of leading dimensions.
        - Output: (*, n).
        - weight: (n, m) and bias: (n,), as in ``nn.Linear``.
        - mu, sigma: (n, d).

    Example:
        >>> layer = FocusedLinear(784, 800, topology=(28, 28), sigma=0.1)
        >>> layer(torch.randn(64, 784)).shape
        torch.Size([64, 800])
    """

    tau: Tensor
    mask: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        topology: Topology = None,
        grid: str = "linspace",
        focus: str = "gaussian",
        mu: Mu = "spread",
        sigma: Sigma = 0.025,
        train_mu: bool = True,
        train_sigma: bool = True,
        init: str = "focus_glorot",
        sigma_range: tuple[float, float] = (0.01, 1.0),
        mu_range: tuple[float, float] = (0.0, 1.0),
        normalizer: str = "l2",
        backend: str = "auto",
        cutoff: float = 1e-7,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Make the layer; a wrong argument raises a ValueError that says what is allowed."""
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_choice("focus", focus, FOCUS_FUNCTIONS)
        check_choice("grid", grid, GRIDS)
        check_choice("init", init, WEIGHT_SCHEMES)
        check_choice("normalizer", normalizer, NORMALIZERS)
        backend = FORMER_NAMES.get(backend, backend)
        check_choice("backend", backend, BACKENDS)
        if not 0 < cutoff < 1:
            raise ValueError(f"cutoff={cutoff} must lie between 0 and 1.")
        self.in_features, self.out_features = in_features, out_features
        self.topology, self.grid = read_topology(topology, in_features), grid
        if grid != "linspace" and isinstance(self.topology, Tensor):
            raise ValueError(
                f"grid={grid!r} does not apply to a topology that is a tensor: leave it out."
            )
        self.focus, self.normalizer, self.init = focus, normalizer, init
        self.backend, self.cutoff = backend, cutoff
        self.mu_range = _check_range("mu_range", mu_range, -math.inf)
        self.sigma_range = _check_range("sigma_range", sigma_range, 0.0)
        self._start = (mu, sigma)
        self._cpu_engine: cpu.CpuEngine | None = None

        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(weight.new_zeros(out_features)) if bias else None
        self.register_buffer("tau", self._positions(), persistent=False)
        foci = weight.new_empty(out_features, self.tau.shape[1])
        self.mu = nn.Parameter(foci, requires_grad=train_mu)
        self.sigma = nn.Parameter(foci.clone(), requires_grad=train_sigma)
        self.register_buffer("mask", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw foci and weights anew, as in the constructor; on the meta device, do nothing."""
        if self.weight.is_meta:
            return
        neurons, axes = self.mu.shape
        mu, sigma = self._start
        with torch.no_grad():
            self.mu.copy_(initial_mu(mu, neurons, axes, self.mu_range))
            self.sigma.copy_(initial_sigma(sigma, neurons, axes))
            self.mask = None
            bound = weight_bound(self.phi(), self.init)
            self.weight.copy_((2 * torch.rand_like(bound) - 1) * bound)
            if self.bias is not None:
                self.bias.zero_()

    def _positions(self) -> Tensor:
        # Never below float32: bfloat16 cannot tell 784 positions apart.
        dtype = torch.promote_types(self.weight.dtype, torch.float32)
        return positions(self.topology, self.grid, device=self.weight.device, dtype=dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> FocusedLinear:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.tau = self._positions()
        self._cpu_engine = None  # it holds the positions at the former precision
        return self

    @property
    def foci(self) -> FociView:
        """Centres and apertures as a reader expects them: (n,) on a line, (n, d) elsewhere."""
        if self.mu.shape[1] == 1:
            return FociView(self.mu[:, 0], self.sigma[:, 0])
        return FociView(self.mu, self.sigma)

    def phi(self) -> Tensor:
        """Focus coefficients (n, m), zero where pruned; of bernoulli, their expectation."""
        phi = focus_coefficients(
            self.mu, self.sigma, self.tau, focus=self.focus, normalizer=self.normalizer
        )
        return phi if self.mask is None else phi * self.mask

    def effective_weight(self) -> Tensor:
        """The weights that act, phi o W, of shape (n, m)."""
        return (self.phi() * self.weight).to(self.weight.dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Map (*, m) to (*, n)."""
        if isinstance(input, fx.Proxy) and (recorded := record_call(self, input)) is not None:
            return recorded
        weight, bias = self._parameter("weight"), self._parameter("bias")
        plain = self.backend == "reference" or self.focus != "gaussian"
        traced = is_tracing(input) and not (is_compiling() and self._takes_triton(input))
        if plain or traced or input.is_meta:
            foci = self.mu, self.sigma, self.tau
            options: Any = {"focus": self.focus, "normalizer": self.normalizer, "mask": self.mask}
            return focused_linear(input, weight, bias, *foci, **options, sample=self.training)
        if torch.is_autocast_enabled("cpu" if input.is_cpu else input.device.type):
            if input.dtype != torch.float64:  # which autocast leaves alone
                input = input.to(torch.get_autocast_dtype(input.device.type))
        elif input.dtype != weight.dtype:
            return functional.linear(input, weight, bias)  # torch says what is wrong
        x = input if input.dim() == 2 else input.reshape(-1, self.in_features)
        buffers: Any = self._buffers  # many times faster than attributes
        mask, tau = buffers["mask"], buffers["tau"]
        mu, sigma = self._parameter("mu"), self._parameter("sigma")
        if self.backend in CPU_BACKENDS and cpu.supports(x, weight, mu, sigma, tau, mask):
            engine = self._cpu_engine or self._make_cpu_engine()
            y = engine(x, weight, bias, mu, sigma, mask)
        elif self._takes_triton(x):
            from focusing.nn.ops import gpu

            y = gpu.focused_linear(x, weight, bias, mu, sigma, tau, mask, self.normalizer)
        else:
            y = fused.focused_linear(x, weight, bias, mu, sigma, tau, mask, self.normalizer)
        return y if input.dim() == 2 else y.view(*input.shape[:-1], self.out_features)

    def _parameter(self, name: str) -> Any:
        """The attribute, several times faster unless it is computed from other parameters."""
        parameter = self._parameters.get(name)
        return getattr(self, name) if parameter is None else parameter

    def _takes_triton(self, x: Tensor) -> bool:
        """Whether inputs go to Triton's kernels, of which the interpreter on CPUs is for tests."""
        if self.backend not in GPU_BACKENDS or not triton_runs_on(x.device.type):
            return False
        from focusing.nn.ops import gpu  # which imports Triton: not before it is needed

        weight, mu, sigma = (self._parameter(name) for name in ("weight", "mu", "sigma"))
        return gpu.supports(x, weight, mu, sigma, self.tau, self.mask) and (
            self.backend == "triton" or not x.is_cpu
        )

    def _make_cpu_engine(self) -> cpu.CpuEngine:
        """An engine for these positions; it keeps its plan and its memory between steps."""
        large = self.in_features * self.out_features >= MIN_BANDED_WEIGHTS
        bands = "auto" if self.backend == "auto" and large else "never"
        self._cpu_engine = cpu.CpuEngine(
            self.tau,
            regular=not isinstance(self.topology, Tensor),
            normalizer=self.normalizer,
            cutoff=self.cutoff,
            bands="always" if self.backend == "numba_banded" else bands,
        )
        return self._cpu_engine

    @torch.no_grad()
    def constrain_(self) -> None:
        """Clip mu and sigma into their ranges; call it after each optimizer step."""
        self.mu.clamp_(*self.mu_range)
        self.sigma.clamp_(*self.sigma_range)

    def regularization(self, p: int = 2) -> Tensor:
        """Sum of |sigma|^p over the neurons: a penalty that narrows the foci.

        Args:
            p: 1 or 2.
        """
        if p not in (1, 2):
            raise ValueError(f"p={p} must be 1 or 2.")
        return self.sigma.abs().sum() if p == 1 else self.sigma.square().sum()

    @torch.no_grad()
    def prune(self, threshold: float) -> float:
        """Drop the connections with |phi| < threshold for good; they are kept in ``mask``.

        Returns:
            The sparsity: the share of connections that are gone.
        """
        if not threshold >= 0:
            raise ValueError(f"threshold={threshold} must be 0 or greater.")
        kept = self.phi().abs() >= threshold
        self.mask = kept if self.mask is None else kept & self.mask
        return 1 - self.mask.float().mean().item()

    @torch.no_grad()
    def fold(self) -> nn.Linear:
        """A plain ``nn.Linear`` that computes the same in eval mode, without the foci."""
        bias = None if self.bias is None else nn.Parameter(self.bias.detach().clone())
        linear = nn.Linear(self.in_features, self.out_features, bias is not None, device="meta")
        linear.weight = nn.Parameter(self.effective_weight())
        linear.register_parameter("bias", bias)
        return linear.train(self.training)

    @torch.no_grad()
    def banded(self) -> BandedLinear:
        """A layer for inference that computes only the connections above the cutoff."""
        phi = self.phi().abs()
        kept = phi > self.cutoff * phi.amax(1, keepdim=True)
        weight = self.effective_weight() * kept
        return BandedLinear(weight, self.bias, positions=self.tau).train(self.training)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        if prefix + "mask" in state_dict:
            self.mask = torch.ones_like(self.weight, dtype=torch.bool)
        elif prefix + "weight" in state_dict:  # of a layer that was not pruned
            self.mask = None
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cpu_engine": None}  # made anew where it is needed

    def extra_repr(self) -> str:
        """Sizes, focus, and the range of the foci as they are now."""
        parts = [
            f"in_features={self.in_features}, out_features={self.out_features}",
            f"bias={self.bias is not None}, focus={self.focus}",
        ]
        for name, default in (("normalizer", "l2"), ("grid", "linspace")):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        if isinstance(self.topology, Tensor):
            parts.append(f"topology={tuple(self.topology.shape)} positions")
        elif len(self.topology.axes) > 1 or self.topology.channels > 1:
            parts.append(f"topology={self.topology}")
        for name in ("mu", "sigma"):
            values = getattr(self, name)
            if type(values) in PLAIN_TYPES and not values.is_meta:  # no rank asks for shards alone
                fixed = "" if values.requires_grad else " (fixed)"
                parts.append(f"{name}={values.min():.3g}..{values.max():.3g}{fixed}")
        if self.mask is not None:
            parts.append(f"sparsity={1 - self.mask.float().mean():.3f}")
        return ", ".join(parts)


def _check_range(name: str, bounds: tuple[float, float], above: float) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = math.nan  # fails the check
    if not above < low <= high < math.inf:
        raise ValueError(
            f"{name}={bounds} must be (low, high) with "
            f"{'' if above == -math.inf else f'{above:g} < '}low <= high."
        )
    return low, high
