"""A ``focus.npz`` of our choice."""

from pathlib import Path

import numpy as np


def leave_foci(folder: Path, mu: np.ndarray, tau: np.ndarray, sigma: float = 0.1) -> None:
    """Foci ``mu`` of shape (epochs, neurons, axes) on inputs at ``tau``, (inputs, axes)."""
    epochs, neurons, _ = mu.shape
    np.savez(
        folder / "focus.npz",
        **{
            "epoch": np.arange(epochs),
            "hidden1/mu": mu.astype(np.float32),
            "hidden1/sigma": np.full(mu.shape, sigma, np.float32),
            "hidden1/tau": tau.astype(np.float32),
            "hidden1/shown": np.arange(neurons),
            "hidden1/weight_first": np.zeros((neurons, len(tau))),
            "hidden1/weight_last": np.zeros((neurons, len(tau))),
            "hidden1/focus": np.array("gaussian"),
            "hidden1/normalizer": np.array("l2"),
        },
    )
