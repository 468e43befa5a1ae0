"""Multi-head attention whose heads have a learnt focus relative to the query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from focusing.nn.init import expand_values
from focusing.nn.ops.functional import check_range
from focusing.nn.positions import Grid, parse_topology, positions

Foci = float | Sequence[float] | Tensor


class FocusedAttention(nn.MultiheadAttention):
    r"""Multi-head attention in which each head has a focus relative to the query.

    .. math::
        \text{softmax}_k \left( \frac{q_i \cdot k_k}{\sqrt{e}}
        - \frac{1}{2} \left| \frac{\tau_k - \tau_i - \mu_h}{\sigma_h} \right|^2 \right) v_k

    The second term is log phi of the relative position of query i and key k; the softmax is its
    normaliser. Head h learns the offset :math:`\mu_h` and the width :math:`\sigma_h` of its focus.
    A drop-in replacement for ``nn.MultiheadAttention``, also in torch's encoder layers: the calls
    and the parameter names are the same, besides ``mu`` and ``sigma``. It takes no nested tensors:
    set ``use_nested_tensor = False`` in an ``nn.TransformerEncoder`` whose attention you replace.

    Args:
        embed_dim: size of an embedding, over all heads.
        num_heads: number of heads.
        dropout: dropout rate of the attention weights.
        bias: add biases to the projections.
        add_bias_kv: not supported, because such a key has no position.
        add_zero_attn: not supported either.
        kdim: size of a key; None: embed_dim.
        vdim: size of a value; None: embed_dim.
        batch_first: inputs are (N, L, E), not (L, N, E).
        device: device of the parameters.
        dtype: data type of the parameters.
        topology: positions of the tokens. None: a line on which the keys of a call fill 0 to 1. A
            number or ``(T,)``: a line on which T tokens fill 0 to 1, whatever the length of a call.
            A shape such as ``(14, 14)``: this grid, row by row.
        mu: initial offsets: a number, or values (heads,) or (heads, d).
        sigma: initial widths: a number, a range (low, high) that the heads cover geometrically, or
            a tensor (heads,) or (heads, d).
        train_mu: whether mu is trained.
        train_sigma: whether sigma is trained.
        sigma_range: range to which :meth:`constrain_` clips sigma; mu is clipped to [-1, 1].

    Shape:
        - Inputs and outputs: as of ``nn.MultiheadAttention``.
        - mu, sigma: (heads, d).

    Example:
        >>> attention = FocusedAttention(32, 4, batch_first=True, topology=(8, 8))
        >>> x = torch.randn(2, 64, 32)
        >>> attention(x, x, x, need_weights=False)[0].shape
        torch.Size([2, 64, 32])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        topology: int | Sequence[int] | None = None,
        mu: Foci = 0.0,
        sigma: Foci = (0.05, 0.5),
        train_mu: bool = True,
        train_sigma: bool = True,
        sigma_range: tuple[float, float] = (0.01, 10.0),
    ) -> None:
        if add_bias_kv or add_zero_attn:
            raise ValueError(
                "add_bias_kv and add_zero_attn must be False: a key of theirs has no position."
            )
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"num_heads={num_heads} does not divide embed_dim={embed_dim}.")
        super().__init__(
            embed_dim, num_heads, dropout, bias,
            kdim=kdim, vdim=vdim, batch_first=batch_first, device=device, dtype=dtype,
        )  # fmt: skip
        self.topology = _parse_axes(topology)
        self.sigma_range = check_range("sigma_range", sigma_range, 0.0)
        axes = 1 if self.topology is None else len(self.topology.axes)
        if isinstance(sigma, Sequence):
            sigma = _spread(sigma, num_heads)
        offsets = expand_values("mu", mu, num_heads, axes)
        if not bool(((offsets >= -1) & (offsets <= 1)).all()):
            raise ValueError(f"mu={mu} must be in -1 to 1.")
        widths = expand_values("sigma", sigma, num_heads, axes)
        if not bool((widths.isfinite() & (widths > 0)).all()):
            raise ValueError(f"sigma={sigma} must be finite and greater than 0.")
        self._initial_foci = (offsets, widths)
        self.mu = nn.Parameter(offsets.to(self.out_proj.weight), requires_grad=train_mu)
        self.sigma = nn.Parameter(widths.to(self.out_proj.weight), requires_grad=train_sigma)

    def _reset_parameters(self) -> None:
        """Initialise projections and foci, as the constructor does."""
        self._qkv_same_embed_dim = self.in_proj_weight is not None
        super()._reset_parameters()
        # Disables the fast path of TransformerEncoderLayer, which would skip the focus.
        self._qkv_same_embed_dim = False
        if "mu" in self._parameters:  # torch's constructor calls this before there are foci
            with torch.no_grad():
                for foci, initial in zip((self.mu, self.sigma), self._initial_foci, strict=True):
                    foci.copy_(initial)

    def log_phi(self, queries: int, keys: int) -> Tensor:
        """The term that is added to the attention scores, (heads, queries, keys)."""
        dtype = torch.promote_types(self.mu.dtype, torch.float32)
        places: Any = {"device": self.mu.device, "dtype": dtype}
        if self.topology is None or len(self.topology.axes) == 1:
            unit = (keys if self.topology is None else self.topology.axes[0]) - 1
            tau = torch.arange(max(queries, keys), **places)[:, None] / max(unit, 1)
        else:
            tau = positions(self.topology, "linspace", **places)
            if queries != len(tau) or keys != len(tau):
                raise ValueError(
                    f"topology={self.topology} has {len(tau)} tokens but the input has {queries} "
                    f"queries and {keys} keys."
                )
        distance = tau[:keys] - tau[:queries, None]  # (queries, keys, d)
        mu, sigma = (foci.to(dtype)[:, None, None] for foci in (self.mu, self.sigma))
        return ((distance - mu) / sigma).square().sum(-1) / -2

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As ``nn.MultiheadAttention``; ``need_weights=False`` uses torch's fused attention.

        Masks are boolean, with True where attention is not allowed, or floats, which are added to
        the scores.
        """
        if is_causal and attn_mask is None:
            raise ValueError("is_causal=True is a hint about attn_mask: give attn_mask too.")
        if query.is_nested:
            raise ValueError(
                "FocusedAttention does not take nested tensors, which lack the positions of the "
                "padding: set use_nested_tensor = False in the nn.TransformerEncoder."
            )
        if query.dim() not in (2, 3) or not query.dim() == key.dim() == value.dim():
            raise ValueError(
                f"query, key and value have {query.dim()}, {key.dim()} and {value.dim()} "
                "dimensions: give 3, or 2 without a batch."
            )
        batched, first = query.dim() == 3, self.batch_first
        query, key, value = (
            x.unsqueeze(0) if not batched else x if first else x.transpose(0, 1)
            for x in (query, key, value)
        )  # (N, tokens, features)
        samples, queries, keys = *query.shape[:2], key.shape[1]
        if key.shape[0] != samples or value.shape[:2] != key.shape[:2]:
            raise ValueError(
                f"query, key and value have {samples}, {key.shape[0]} and {value.shape[0]} samples "
                f"and {queries}, {keys} and {value.shape[1]} tokens: their samples must agree, and "
                "the tokens of key and value."
            )
        q, k, v = (
            x.reshape(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
            for x in self._project(query, key, value)
        )  # (N, heads, tokens, features of a head)
        scores = self.log_phi(queries, keys).to(q.dtype)[None]
        if attn_mask is not None:
            shapes = [(queries, keys), (samples * self.num_heads, queries, keys)]
            mask = _additive("attn_mask", attn_mask, shapes, scores)
            if mask.dim() == 3:
                mask = mask.reshape(samples, self.num_heads, queries, keys)
            scores = scores + mask
        if key_padding_mask is not None:
            shape = (samples, keys) if batched else (keys,)
            padding = _additive("key_padding_mask", key_padding_mask, [shape], scores)
            scores = scores + padding.reshape(samples, 1, 1, keys)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = (q @ k.transpose(-2, -1) / math.sqrt(self.head_dim) + scores).softmax(-1)
            weights = functional.dropout(weights, dropout)
            attended = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            attended = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=scores, dropout_p=dropout
            )
        joined = attended.transpose(1, 2).flatten(2)
        output = functional.linear(joined, self.out_proj.weight, self.out_proj.bias)
        if not batched:
            return output[0], None if weights is None else weights[0]
        return output if first else output.transpose(0, 1), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        bias = self.in_proj_bias
        matrices: tuple[Tensor, ...]
        if self.in_proj_weight is None:
            matrices = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif query is key is value:
            return functional.linear(query, self.in_proj_weight, bias).chunk(3, dim=-1)
        else:
            matrices = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        inputs = (query, key, value)
        return tuple(map(functional.linear, inputs, matrices, biases))

    @torch.no_grad()
    def constrain_(self) -> None:
        """Clip mu and sigma into their ranges; call it after each optimizer step."""
        self.mu.clamp_(-1, 1)
        self.sigma.clamp_(*self.sigma_range)

    def regularization(self, p: int = 2) -> Tensor:
        """Sum of |sigma|^p over the heads: a penalty that narrows them."""
        return self.sigma.abs().pow(p).sum()

    def extra_repr(self) -> str:
        """Sizes and topology."""
        shape = "" if self.topology is None else f", topology={self.topology}"
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}{shape}"


def _parse_axes(topology: int | Sequence[int] | None) -> Grid | None:
    if topology is None:
        return None
    shape = (topology,) if isinstance(topology, int) else tuple(topology)
    grid = parse_topology((shape, 1), math.prod(shape))
    assert isinstance(grid, Grid)  # noqa: S101 - for the type checker
    return grid


def _spread(bounds: Sequence[float], heads: int) -> Tensor:
    """Widths from low to high, in a geometric sequence."""
    if isinstance(bounds, str) or len(bounds) != 2 or not 0 < bounds[0] <= bounds[1] < math.inf:
        raise ValueError(f"sigma={bounds!r} must be a range (low, high) with 0 < low <= high.")
    low, high = map(math.log, bounds)
    return torch.linspace(low, high, heads, dtype=torch.float64, device="cpu").exp()


def _additive(name: str, mask: Tensor, shapes: Sequence[tuple[int, ...]], like: Tensor) -> Tensor:
    """A mask to add to the scores: minus infinity where a boolean mask is True."""
    if tuple(mask.shape) not in shapes:
        raise ValueError(
            f"{name} has shape {tuple(mask.shape)} but must have {' or '.join(map(str, shapes))}."
        )
    if mask.is_floating_point():
        return mask.to(like.dtype)
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} has dtype {mask.dtype}: use mask.bool(), or floats to add.")
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, -math.inf)
