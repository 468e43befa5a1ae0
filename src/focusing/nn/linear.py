"""The focusing neuron as a layer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from focusing.nn import ops
from focusing.nn.focus import FOCUS_FUNCTIONS, NORMALIZERS, FociView
from focusing.nn.init import WEIGHT_SCHEMES, Mu, Sigma, initial_mu, initial_sigma, weight_bound
from focusing.nn.ops import cpu
from focusing.nn.ops.functional import (
    check_choice,
    check_count,
    check_range,
    focus_coefficients,
    focused_linear,
)
from focusing.nn.positions import GRIDS, Grid, Topology, parse_topology, positions
from focusing.nn.sparse import BandedLinear

fx.wrap("focused_linear")  # torch.fx records one call, because the function reads shapes

MIN_BANDED_WEIGHTS = 2**15
"""Number of weights below which bands do not pay: calls take longer than arithmetic."""


class FocusedLinear(nn.Module):
    r"""A linear layer whose neurons learn where to look (Tek, Algorithms 1 and 2).

    .. math::
        y = x (\Phi \circ W)^T + b, \qquad
        \phi_{ji} = s_j \, e^{-|(\tau_i - \mu_j) / \sigma_j|^2 / 2}, \qquad
        s_j = \sqrt{m} \, / \, \|g_j\|_2

    where :math:`g` is the exponential. The centre :math:`\mu` and the aperture :math:`\sigma` of
    each neuron are trained along with its weights. Call :meth:`constrain_` after each optimizer
    step, or let :class:`~focusing.FocusConstraint` do it.

    Args:
        in_features: number of inputs m.
        out_features: number of neurons n.
        bias: learn an additive bias, which starts at zero.
        topology: positions of the inputs. None: a line, as in the paper; a shape such as
            ``(28, 28)``, ``(32, 32, 3)`` whose channels share a position, ``(D, H, W)`` or, with
            many channels, ``((14, 14), 32)``; a tensor (m, d) of positions in [0, 1]; or the
            previous focused layer, whose neurons' current centres become the positions.
        grid: positions along an axis of m inputs: ``"linspace"`` (i / (m - 1), from 0 to 1) or
            ``"index"`` (i / m, as in the paper's Eq. focus and the author's code of 2018).
        focus: ``"gaussian"``, ``"negated_gaussian"``, ``"gaussian_derivative"``, ``"triangle"`` or
            ``"bernoulli"`` (connections are drawn with the Gaussian as their probability in
            training, and take their expectation in eval mode).
        mu: initial centres: ``"spread"`` (a grid), ``"center"``, ``"center_jitter"`` (+-.025),
            ``"random"``, a number, or a tensor (n,) or (n, d).
        margin: free space on either side with ``mu="spread"``: 0.2 puts centres from .2 to .8.
        sigma: initial apertures: a number, a range (low, high) to draw from, or a tensor.
        train_mu: whether mu is trained.
        train_sigma: whether sigma is trained.
        units_per_focus: number of consecutive neurons that share a focus, like the channels of a
            locally connected layer; it divides n.
        init: weight initialisation: ``"focus_glorot"``, ``"glorot"`` (as in a plain layer),
            ``"he"`` or ``"per_connection"``.
        sigma_range: range to which :meth:`constrain_` clips sigma.
        mu_range: range to which :meth:`constrain_` clips mu.
        normalizer: ``"l2"`` (the paper's Eq. for s), ``"sum"`` (Algorithm 2 as printed),
            ``"mean"`` (the mean of phi is 1, as in the author's code of 2018) or ``"none"``.
        backend: the engine; all give the same result. ``"reference"`` (plain autograd),
            ``"torch"`` (fewer passes), ``"numba"`` (CPU kernels), ``"numba_banded"`` (CPU kernels
            that skip inputs outside the foci), ``"triton"`` (GPU kernels), or ``"auto"``, which
            selects by device, shape and foci. Only reference computes other focus functions and
            second derivatives. Where numba or Triton cannot run, torch does.
        cutoff: bands skip inputs whose coefficient is below this share of the neuron's largest.
        device: device of the parameters.
        dtype: data type of the parameters.

    Shape:
        - Input: (*, m) with any number of leading dimensions.
        - Output: (*, n).
        - weight: (n, m) and bias: (n,), as in ``nn.Linear``.
        - mu, sigma: (n / units_per_focus, d).

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
        topology: Topology | FocusedLinear = None,
        grid: str = "linspace",
        focus: str = "gaussian",
        mu: Mu = "spread",
        margin: float = 0.2,
        sigma: Sigma = 0.025,
        train_mu: bool = True,
        train_sigma: bool = True,
        units_per_focus: int = 1,
        init: str = "focus_glorot",
        sigma_range: tuple[float, float] = (0.01, 1.0),
        mu_range: tuple[float, float] = (0.0, 1.0),
        normalizer: str = "l2",
        backend: str = "auto",
        cutoff: float = 1e-7,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_count("units_per_focus", units_per_focus)
        if out_features % units_per_focus:
            raise ValueError(
                f"units_per_focus={units_per_focus} does not divide out_features={out_features}."
            )
        if not 0 <= margin < 0.5:
            raise ValueError(f"margin={margin} must be at least 0 and less than 0.5.")
        check_choice("focus", focus, FOCUS_FUNCTIONS)
        check_choice("grid", grid, GRIDS)
        check_choice("init", init, WEIGHT_SCHEMES)
        check_choice("normalizer", normalizer, NORMALIZERS)
        backend = ops.BACKEND_ALIASES.get(backend, backend)
        check_choice("backend", backend, ops.BACKENDS)
        if not 0 < cutoff < 1:
            raise ValueError(f"cutoff={cutoff} must lie between 0 and 1.")
        self.in_features, self.out_features = in_features, out_features
        self.units_per_focus = units_per_focus
        # In a tuple, so that it is not registered as a submodule.
        self._previous = (topology,) if isinstance(topology, FocusedLinear) else ()
        self.topology: Grid | Tensor
        if isinstance(topology, FocusedLinear):
            self.topology = _centres(topology, in_features)
        else:
            self.topology = parse_topology(topology, in_features)
        self.grid = grid
        if grid != "linspace" and isinstance(self.topology, Tensor):
            raise ValueError(
                f"grid={grid!r} does not apply to a topology that is a tensor: leave it out."
            )
        self.focus, self.normalizer, self.init = focus, normalizer, init
        self.backend, self.cutoff = backend, cutoff
        self.mu_range = check_range("mu_range", mu_range, -math.inf)
        self.sigma_range = check_range("sigma_range", sigma_range, 0.0)
        self._initial_foci = (mu, margin, sigma)
        self._cpu_engine: cpu.CpuEngine | None = None

        self._create_weight(device=device, dtype=dtype)
        parameter = self._weight_parameter
        self.bias = nn.Parameter(parameter.new_zeros(out_features)) if bias else None
        self.register_buffer("tau", self._positions(), persistent=False)
        foci = parameter.new_empty(out_features // units_per_focus, self.tau.shape[1])
        self.mu = nn.Parameter(foci, requires_grad=train_mu)
        self.sigma = nn.Parameter(foci.clone(), requires_grad=train_sigma)
        self.register_buffer("mask", None)
        self.reset_parameters()

    def _create_weight(self, **factory: Any) -> None:
        self.weight = nn.Parameter(torch.empty(self.out_features, self.in_features, **factory))

    @property
    def _weight_parameter(self) -> nn.Parameter:
        """The parameter behind ``weight``, which a subclass may compute from another one."""
        return self.weight

    def reset_parameters(self) -> None:
        """Initialise foci and weights, as the constructor does; on the meta device, do nothing."""
        if self._weight_parameter.is_meta:
            return
        mu, margin, sigma = self._initial_foci
        with torch.no_grad():
            foci, axes = self.mu.shape
            self.mu.copy_(initial_mu(mu, foci, axes, self.mu_range, margin))
            self.sigma.copy_(initial_sigma(sigma, foci, axes))
            self.mask = None
            self._reset_weight(weight_bound(self.phi(), self.init))
            if self.bias is not None:
                self.bias.zero_()

    def _reset_weight(self, bound: Tensor) -> None:
        """Draw weights from U[-b, b]; b is broadcastable to (n, m)."""
        self.weight.copy_((2 * torch.rand_like(bound) - 1) * bound)

    @property
    def _tau_options(self) -> dict[str, Any]:
        """Device and dtype of positions; bfloat16 could not tell 784 of them apart."""
        parameter = self._weight_parameter
        dtype = torch.promote_types(parameter.dtype, torch.float32)
        return {"device": parameter.device, "dtype": dtype}

    def _positions(self) -> Tensor:
        topology = _centres(*self._previous, self.in_features) if self._previous else self.topology
        return positions(topology, self.grid, **self._tau_options)

    def _update_positions(self) -> None:
        """Take the current centres of the previous layer as positions, if they have moved."""
        if not self._previous:
            return
        with torch.inference_mode(False):  # training may use them later
            tau = self._positions()
        # Not by mu's version: fused optimizers change it in place and leave its version alone.
        # Elsewhere than on CPUs no engine keeps positions, and comparing them would wait.
        if not (tau.is_cpu and type(tau) in ops.PLAIN_TYPES and torch.equal(tau, self.tau)):
            self._set_positions(tau)

    def _set_positions(self, tau: Tensor) -> None:
        self.tau = tau
        self._cpu_engine = None  # it has the old positions

    def _apply(self, fn: Any, recurse: bool = True) -> FocusedLinear:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._set_positions(self._positions())
        return self

    @property
    def foci(self) -> FociView:
        """Views of mu and sigma: vectors (n,) on a line, (n, d) elsewhere."""
        if self.mu.shape[1] == 1:
            return FociView(self.mu[:, 0], self.sigma[:, 0])
        return FociView(self.mu, self.sigma)

    def neuron_foci(self) -> FociView:
        """Centre and aperture of every neuron, (n, d), as the engines take them.

        Neurons that share a focus get copies of it; autograd sums their gradients.
        """
        mu, sigma = self._parameter("mu"), self._parameter("sigma")
        if self.units_per_focus > 1:
            mu, sigma = (v.repeat_interleave(self.units_per_focus, dim=0) for v in (mu, sigma))
        return FociView(mu, sigma)

    def phi(self) -> Tensor:
        """Focus coefficients (n, m), zero where pruned; for bernoulli, their expectation."""
        tau = self._positions() if self._previous else self.tau
        phi = focus_coefficients(
            *self.neuron_foci(), tau, focus=self.focus, normalizer=self.normalizer
        )
        return phi if self.mask is None else phi * self.mask

    def effective_weight(self) -> Tensor:
        """The product phi o W, (n, m)."""
        return (self.phi() * self.weight).to(self.weight.dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Map (*, m) to (*, n)."""
        if isinstance(input, fx.Proxy) and (recorded := ops.record_call(self, input)) is not None:
            return recorded
        weight, bias = self._parameter("weight"), self._parameter("bias")
        mu, sigma = self.neuron_foci()
        plain = self.backend == "reference" or self.focus != "gaussian"
        if not plain and ops.is_tracing(input):
            tensors = input, weight, mu, sigma, self.tau, self.mask
            plain = bool(self._previous) or not ops.compiles_triton(self.backend, *tensors)
        if plain or input.is_meta:
            foci = mu, sigma, self._positions() if self._previous else self.tau
            options: Any = {"focus": self.focus, "normalizer": self.normalizer, "mask": self.mask}
            return focused_linear(input, weight, bias, *foci, **options, sample=self.training)
        self._update_positions()
        if torch.is_autocast_enabled("cpu" if input.is_cpu else input.device.type):
            if input.dtype != torch.float64:  # autocast leaves it alone
                input = input.to(torch.get_autocast_dtype(input.device.type))
        elif input.dtype != weight.dtype:
            return functional.linear(input, weight, bias)  # raises torch's own error
        if input.shape[-1:] != (self.in_features,):  # reshape would accept rows of an image
            raise ops.wrong_width(input, self.in_features)
        x = input if input.dim() == 2 else input.reshape(-1, self.in_features)
        buffers: Any = self._buffers  # much faster than attributes
        mask, tau = buffers["mask"], buffers["tau"]
        if self.backend in ops.CPU_BACKENDS and cpu.supports(x, weight, mu, sigma, tau, mask):
            y = (self._cpu_engine or self._make_cpu_engine())(x, weight, bias, mu, sigma, mask)
        else:
            engine = ops.select_engine(self.backend, x, weight, mu, sigma, tau, mask)
            y = engine.focused_linear(x, weight, bias, mu, sigma, tau, mask, self.normalizer)
        return y if input.dim() == 2 else y.view(*input.shape[:-1], self.out_features)

    def _parameter(self, name: str) -> Any:
        """A fast ``getattr``, which is slow in modules; a parametrised one is no parameter."""
        parameter = self._parameters.get(name)
        return getattr(self, name) if parameter is None else parameter

    def _make_cpu_engine(self) -> cpu.CpuEngine:
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
        self._update_positions()

    def regularization(self, p: int = 2) -> Tensor:
        """Sum of |sigma|^p over the foci, with p = 1 or 2: a penalty that narrows them."""
        if p not in (1, 2):
            raise ValueError(f"p={p} must be 1 or 2.")
        return self.sigma.abs().sum() if p == 1 else self.sigma.square().sum()

    @torch.no_grad()
    def prune(self, threshold: float) -> float:
        """Remove connections with |phi| < threshold permanently, by setting ``mask``.

        Returns:
            The sparsity: the share of connections that are removed.
        """
        if not threshold >= 0:
            raise ValueError(f"threshold={threshold} must be 0 or greater.")
        kept = self.phi().abs() >= threshold
        self.mask = kept if self.mask is None else kept & self.mask
        return 1 - self.mask.float().mean().item()

    @torch.no_grad()
    def fold(self) -> nn.Linear:
        """Convert to a plain ``nn.Linear`` with the same outputs as in eval mode."""
        self._update_positions()
        bias = None if self.bias is None else nn.Parameter(self.bias.detach().clone())
        linear = nn.Linear(self.in_features, self.out_features, bias is not None, device="meta")
        linear.weight = nn.Parameter(self.effective_weight())
        linear.register_parameter("bias", bias)
        return linear.train(self.training)

    @torch.no_grad()
    def banded(self) -> BandedLinear:
        """Convert to a layer for inference that computes only connections above the cutoff."""
        weight = self.effective_weight() * self.within_cutoff()
        return BandedLinear(weight, self.bias, positions=self._positions()).train(self.training)

    def within_cutoff(self) -> Tensor:
        """Connections above the cutoff, (n, m): |phi| > cutoff times the neuron's largest."""
        phi = self.phi().abs()
        return phi > self.cutoff * phi.amax(1, keepdim=True)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        if prefix + "mask" in state_dict:
            self.mask = torch.ones_like(self.weight, dtype=torch.bool)
        elif any(prefix + name in state_dict for name in ("weight", "taps")):  # not pruned
            self.mask = None
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        options = self._tau_options  # assign=True replaces parameters by those of the state
        if (self.tau.device, self.tau.dtype) != (options["device"], options["dtype"]):
            self._set_positions(self._positions())

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return {**state, "_cpu_engine": None}  # the engine holds raw memory

    def extra_repr(self) -> str:
        """Sizes, focus, and the current range of the foci."""
        parts = [
            f"in_features={self.in_features}, out_features={self.out_features}",
            f"bias={self.bias is not None}, focus={self.focus}",
        ]
        for name, default in (("normalizer", "l2"), ("grid", "linspace"), ("units_per_focus", 1)):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        if self._previous:
            parts.append("topology=centres of the previous layer")
        elif isinstance(self.topology, Tensor):
            parts.append(f"topology={tuple(self.topology.shape)} positions")
        elif len(self.topology.axes) > 1 or self.topology.channels > 1:
            parts.append(f"topology={self.topology}")
        for name in ("mu", "sigma"):
            values = getattr(self, name)
            if type(values) in ops.PLAIN_TYPES and not values.is_meta:  # not the shards of FSDP
                fixed = "" if values.requires_grad else " (fixed)"
                parts.append(f"{name}={values.min():.3g}..{values.max():.3g}{fixed}")
        if self.mask is not None:
            parts.append(f"sparsity={1 - self.mask.float().mean():.3f}")
        return ", ".join(parts)


def _centres(layer: FocusedLinear, in_features: int) -> Tensor:
    """Centres of a layer's neurons, which are positions for the next layer."""
    if layer.out_features != in_features:
        raise ValueError(
            f"topology is a layer of {layer.out_features} neurons but in_features={in_features}."
        )
    if not (layer.mu_range[0] >= 0 and layer.mu_range[1] <= 1):
        raise ValueError(f"topology is a layer whose mu_range={layer.mu_range} exceeds (0, 1).")
    return layer.neuron_foci().mu.detach().clone()
