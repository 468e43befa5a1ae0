"""Dropout whose masks are drawn quickly on CPUs."""

from __future__ import annotations

import torch
from torch import Tensor, fx, nn

from focusing.nn import ops

MIN_VALUES = 2**12
"""Number of values below which torch's own dropout is as fast: calls take longer than numbers."""


class Dropout(nn.Dropout):
    """``nn.Dropout`` that is faster in training on CPUs; elsewhere it is the same.

    On many CPUs torch draws a 64-bit random number for each value, and compares it. Here such a
    number serves four values, so the rate is rounded to a multiple of 2^-16.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Zero values with probability p, and divide the others by 1 - p, in training."""
        if isinstance(input, fx.Proxy) and (recorded := ops.record_call(self, input)) is not None:
            return recorded
        is_fast = self.training and not self.inplace and 0 < self.p < 1
        if not is_fast or ops.is_tracing(input) or not input.is_cpu or input.numel() < MIN_VALUES:
            return super().forward(input)
        count = input.numel()
        numbers = torch.empty(-(-count // 4), dtype=torch.int64, device=input.device)
        numbers = numbers.random_(-(2**63), None).view(torch.int16)[:count]
        kept = numbers >= round(self.p * 2**16) - 2**15
        return input * kept.to(input.dtype).mul_(1 / (1 - self.p)).view(input.shape)
