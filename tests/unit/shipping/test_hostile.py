"""Exported files and inputs from strangers: refused before they cost memory or time."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from focusing.errors import UserError
from focusing.shipping.card import KEY, Card
from focusing.shipping.export import read_exported
from focusing.shipping.predict import read_samples

safetensors = pytest.importorskip("safetensors.torch", reason="needs the extra focusing[export]")


def write(path: Path, *, shape: tuple[int, ...] = (4,), classes: Any = "ab", **model: Any) -> Path:
    """A file with a card and hardly any weights."""
    sizes = {"inputs": list(shape), "outputs": 2, "hidden": [3]}
    model = {"_target_": "focusing.models.dense_mlp", **sizes, **model}
    card = {"data": "x", "shape": list(shape), "classes": list(classes), "model": model}
    text = json.dumps({**card, "schema": 1})
    safetensors.save_file({"weight": torch.zeros(1)}, path, metadata={KEY: text})
    return path


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hidden": [1] * 20_000}, "hidden has 20000 layers, the most are 1000"),
        ({"hidden": [10**12]}, "has .* bytes: too few for the network of 32.7 TiB"),
        ({"hidden": [10**7]}, "has .* bytes: too few for the network of 343 MiB"),
        ({"hidden": [4_000_000_000, 4_000_000_000]}, "cannot be read|too few"),
        ({"hidden": "abc"}, "hidden"),
        ({"shape": (10**9,)}, "a sample is too large"),
        ({"classes": ["a", "\x1b[2J"]}, "classes.1 has characters that cannot be printed"),
    ],
)
def test_cards(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        read_exported(write(tmp_path / "net.safetensors", **options))


def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.safetensors")
    with pytest.raises(UserError, match="is a pipe or a device, not a file"):
        read_exported(tmp_path / "net.safetensors")


@pytest.mark.parametrize(
    ("name", "make", "expected"),
    [
        ("x.npz", lambda path: np.savez(path, np.array(["a"])), "<U1, not numbers"),
        ("x.npz", lambda path: np.savez(path, np.array([1j] * 4)), "complex128, not numbers"),
        ("x.npy", lambda path: np.save(path, np.array([1j] * 4)), "complex128, not numbers"),
        ("x.npy", lambda path: np.save(path, np.array([[1], [2, 3]], dtype=object)), "lists"),
        ("x.csv", os.mkfifo, "is a pipe or a device"),
        ("x.png", lambda path: path.symlink_to("/dev/zero"), "is a pipe or a device"),
        ("x.npy", os.mkdir, "is a folder"),
    ],
)
def test_inputs(tmp_path: Path, name: str, make: Callable[[Path], Any], expected: str) -> None:
    make(tmp_path / name)
    with pytest.raises(UserError, match=expected):
        read_samples(tmp_path / name, Card("x", [4], ["a", "b"]))


def test_only_the_inputs_of_an_npz_file_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", inputs=np.ones((2, 4)), names=np.array(["a", "b"]))
    assert read_samples(tmp_path / "x.npz", Card("x", [4], ["a", "b"])).shape == (2, 4)
