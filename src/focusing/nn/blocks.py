"""The product with a sparse matrix on a CPU, by vector instructions of our own.

A matrix product is fast on large tiles, and large tiles hold many zeros. A block here is no more
than eight neurons and the inputs that any of them needs. What fills the processor's vectors are
samples: their inputs are laid side by side, so that a weight is multiplied with all of them at
once. Few samples are computed one by one, with the neurons of a block side by side.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch
from numba import types
from torch import Tensor

from focusing.nn.kernels import compiled
from focusing.nn.memory import scratch
from focusing.nn.vectors import NEURONS, PANEL, TASK, work, work_in_team

NEAR = 256
"""Neurons that are looked at to fill a block."""
Ints = npt.NDArray[np.intp]

_Task = ctypes.c_ssize_t * TASK


@cache
def team() -> tuple[Any, Any] | None:
    """What runs a function in torch's threads, and the function to run.

    Threads of our own would not get far beside these, which wait busily for more work. None: they
    cannot be asked as those of GNU's OpenMP can.
    """
    try:
        run = ctypes.CDLL(None).GOMP_parallel  # (function, argument, threads, flags)
    except (AttributeError, OSError, TypeError):
        return None
    run.argtypes, run.restype = [ctypes.c_void_p] * 2 + [ctypes.c_uint] * 2, None
    return run, compiled(work_in_team, partial(numba.cfunc, types.void(types.intp)))


class Blocks:
    """Multiplies with a sparse matrix, in single precision on a CPU.

    Attributes:
        work: share of the n * m products that are computed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take what is needed of a weight (n, m) and a bias (n,)."""
        matrix = weight.detach().numpy()
        neurons, inputs = matrix.shape
        used = matrix != 0
        groups = alike(used)
        needed = [np.flatnonzero(used[group].any(0)) for group in groups]
        places = np.cumsum([0, *map(len, needed)])
        columns = np.concatenate(needed).astype(np.int32)
        weights = np.zeros((len(columns), NEURONS), np.float32)
        biases = np.zeros((len(groups), NEURONS), np.float32)
        rows = np.full((len(groups), NEURONS), neurons, np.int32)  # the last one may have fewer
        for block, group in enumerate(groups):
            own, size = slice(places[block], places[block + 1]), len(group)
            weights[own, :size] = matrix[np.ix_(group, needed[block])].T
            biases[block, :size] = 0 if bias is None else bias.detach().numpy()[group]
            rows[block, :size] = group
        self.work = weights.size / matrix.size
        self._arrays = places, columns, weights, biases, rows
        addresses = (each.ctypes.data for each in self._arrays)
        # Counters of threads and of what is done; x, out, space, samples, threads; what stays.
        self._task = _Task(*[0] * 7, inputs, neurons, len(groups), *addresses)
        self._neurons, self._space = neurons, (inputs + neurons + 1) * PANEL

    def __call__(self, x: Tensor, threads: int = 1) -> Tensor:
        """Map (b, m) to (b, n), in some threads; more than one only if there is a ``team``."""
        x, samples = x.contiguous(), x.shape[0]
        y = x.new_empty(samples, self._neurons)
        space = scratch(threads * self._space, torch.float32)
        task = _Task.from_buffer_copy(self._task)
        task[2:7] = [x.data_ptr(), y.data_ptr(), space.data_ptr(), samples, threads]
        helpers = team() if threads > 1 else None
        if helpers is None:
            work(ctypes.addressof(task))
        else:
            run, function = helpers
            run(function.address, task, threads, 0)
        return y

    def __getstate__(self) -> Any:
        raise TypeError("Blocks hold addresses and cannot be copied; their layer can be.")


def alike(used: npt.NDArray[np.bool_]) -> list[Ints]:
    """Groups of neurons that need nearly the same inputs.

    Whoever adds least to the work of a group joins it, until it is full.

    Args:
        used: which inputs each neuron needs, (n, m).
    """
    needs = [int.from_bytes(np.packbits(each).tobytes(), "big") for each in used]  # sets of bits
    left = np.argsort(used.argmax(1), kind="stable").tolist()
    groups = []
    while left:
        group = [left.pop(0)]
        inputs = needs[group[0]]
        while left and len(group) < NEURONS:
            # All others pay for inputs that only one needs, and that one for what it needs not.
            added = [
                len(group) * needs[each].bit_count()
                - (len(group) + 1) * (needs[each] & inputs).bit_count()
                for each in left[:NEAR]
            ]
            group.append(left.pop(added.index(min(added))))
            inputs |= needs[group[-1]]
        groups.append(np.sort(group))
    return groups
