"""Make small data files in the official formats."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import wave
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.forkserver import CONTEXT

random = np.random.default_rng(0)
DIGIT_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def digits(folder: Path, train: int = 60, test: int = 20) -> dict[str, np.ndarray]:
    """The four files of MNIST with a few random digits; train images are odd, test images even."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for split, count, odd in (("train", train, 1), ("t10k", test, 0)):
        images = random.integers(1, 128, (count, 28, 28)) * 2 - odd
        labels = np.arange(count) % 10
        arrays[f"{split}-images"], arrays[f"{split}-labels"] = images.astype(np.uint8), labels
        (folder / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return arrays


def cifar(folder: Path, count: int = 20) -> np.ndarray:
    """Six batches as Python 3 would pickle them with protocol 2; their images, HWC."""
    folder.mkdir(parents=True, exist_ok=True)
    images = []
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        data = random.integers(0, 256, (count, 3072)).astype(np.uint8)
        labels = [int(i) % 10 for i in range(count)]
        content = {"data": data, "labels": labels, "batch_label": name, "filenames": ["x"] * count}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
        images.append(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return np.concatenate(images)


TABLE = np.random.default_rng(0).random((506, 14)).round(4)


def housing(folder: Path) -> None:
    """The table of Boston housing, with random numbers."""
    folder.mkdir(parents=True)
    lines = (" " + "  ".join(map(str, row)) + "\n" for row in TABLE)
    (folder / "housing.data").write_text("".join(lines))


def newswires(folder: Path) -> None:
    """The file of Reuters with 60 short texts."""
    folder.mkdir(parents=True)
    texts = [random.integers(1, 30, 5).tolist() for _ in range(60)]
    (folder / "reuters.npz").write_bytes(npz(x=lists(texts), y=np.arange(60) % 46))


def recordings(folder: Path) -> None:
    """A test and a training recording of every digit by Ann and by Bob; later digits are longer."""
    for digit, speaker, number in product(range(10), ("ann", "bob"), (4, 5)):
        time = np.arange(1500 + 100 * digit) / 8000
        noise = 0.1 * random.standard_normal(len(time)).clip(-3, 3)
        tone = 0.3 * np.sin(2 * np.pi * 440 * time)
        recording(folder / f"{digit}_{speaker}_{number}.wav", tone + noise)


def people(folder: Path) -> None:
    """Photographs: five of Al, four of Bo and two of Cy; the folder is Bo's."""
    for number, (person, count) in enumerate([("Bo", 4), ("Al", 5), ("Cy", 2)]):
        for photo in range(1, count + 1):
            path = folder.parent / person / f"{person}_{photo:04}.jpg"
            photograph(path, tint=60 * number)


def lists(values: Sequence[Sequence[int]]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = [*map(list, values)]
    return array


def recording(path: Path, samples: np.ndarray, rate: int = 8000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())


def photograph(path: Path, size: tuple[int, int] = (250, 250), tint: int = 0) -> None:
    """A JPEG file of smooth colours, which the format keeps nearly as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    pixels = np.stack([x, y, np.full_like(x, tint)], axis=-1).astype(np.uint8)
    Image.fromarray(pixels).save(path, quality=95)


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def tar(names: dict[str, bytes]) -> bytes:
    """A compressed tar archive of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in names.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def visible(folder: Path) -> list[str]:
    """Names in a folder, without hidden ones."""
    return sorted(path.name for path in folder.iterdir() if path.name[0] != ".")


def run_twice(work: Callable[..., object], *arguments: Any) -> list[int | None]:
    """Run the same work in two processes at once; returns their exit codes."""
    processes = [CONTEXT.Process(target=work, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]
