"""The random numbers that a network may draw: set by a seed, or put back as they were."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_all(seed: int, device: torch.device) -> None:
    """Begin a stream of random numbers in every generator that code may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - for code that draws from the global generator
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a millisecond
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def random_state(device: torch.device) -> dict[str, Any]:
    """Where all streams are now, as plain containers and tensors."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - see above
    state = {
        "python": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),  # type: ignore[attr-defined]
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Go on from what :func:`random_state` gave."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002 - see above
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and "cuda" in state:  # the run may have changed its device
        torch.cuda.set_rng_state(state["cuda"], device)
