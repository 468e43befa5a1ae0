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


def gaussian_sums(distances: Floats, width: Floats, step: float) -> Floats:
    """Sums of q = exp(-s^2 / (2 width^2)) times 1, s and s^2 over inputs around the centre s = 0.

    Args:
        distances: from the centre to the first and to the last input, (2, n).
        width: (n,), at least ``LEAST_WIDTH * step``.
        step: distance between inputs.

    Returns:
        (3, n).
    """
    variance, twelfth = width * width, step / 12
    slope = distances / variance
    q = np.exp(slope * distances * -0.5)
    # Of both ends at once: half of the value there, less the integral beyond, and a twelfth of the
    # derivative. By the distance instead of s, they are equal for even powers of s.
    ends = np.empty((3, *q.shape))
    np.multiply(q, 0.5 - slope * twelfth, out=ends[0])
    np.add(distances * ends[0], q * (twelfth - variance / step), out=ends[1])
    np.multiply(distances, ends[1] + q * twelfth, out=ends[2])
    np.negative(ends[1, 0], out=ends[1, 0])
    sums: Floats = ends[:, 0] + ends[:, 1]
    inside = torch.from_numpy(distances / (width * math.sqrt(2))).erf_().numpy()
    integral = (inside[0] + inside[1]) * (width * (math.sqrt(math.pi / 2) / step))
    sums[0] += integral
    sums[2] += integral * variance
    return sums
