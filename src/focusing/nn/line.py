"""Sums of gaussians over equally spaced inputs, in closed form.

A sum over points that are h apart is 1 / h times the integral, plus corrections at the two ends
(Euler and Maclaurin). So the normaliser of a neuron and its derivatives need no pass over inputs.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

Floats = npt.NDArray[np.float64]

LEAST_WIDTH = 20.0
"""Steps between inputs that a standard deviation must have: what is left out is below 1e-8."""


def gaussian_sums(first: Floats, last: Floats, step: Floats) -> Floats:
    """Sums of exp(-u^2 / 2) times 1, u and u^2 over u = first, first + step, ..., last.

    Args:
        first: (n,).
        last: (n,).
        step: (n,), at most ``1 / LEAST_WIDTH``.

    Returns:
        (3, n).
    """
    ends = np.empty((2, len(first)))
    ends[0], ends[1] = first, last
    erf = torch.from_numpy(ends * math.sqrt(0.5)).erf_().numpy()
    values = np.empty((4, *ends.shape))  # exp(-u^2 / 2) times 1, u, u^2 and u^3 at both ends
    np.exp(ends * ends * -0.5, out=values[0])
    for power in range(3):
        np.multiply(values[power], ends, out=values[power + 1])
    rises = values[:, 1] - values[:, 0]
    sums = (values[:3, 1] + values[:3, 0]) * 0.5
    twelfth = step * (1 / 12)  # of the first derivatives of q, u q and u^2 q
    sums[0] -= rises[1] * twelfth
    sums[1] += (rises[0] - rises[2]) * twelfth
    sums[2] += (2 * rises[1] - rises[3]) * twelfth
    area = (erf[1] - erf[0]) * math.sqrt(math.pi / 2)
    density = 1 / step
    sums[0] += area * density
    sums[1] -= rises[0] * density
    sums[2] += (area - rises[1]) * density
    return sums
