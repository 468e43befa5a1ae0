"""Files that are not what they say: refused in a sentence, before they are inflated."""

import gzip
import io
import os
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from focusing.data import clt, decoders, download, mnist
from focusing.data.decoders import DamagedError, load_npy, load_npz, read_idx
from focusing.data.download import extract
from focusing.data.image_sets import open_image
from focusing.data.tabular import read_boston
from focusing.errors import UserError
from tests.unit.data.makers import digits, npz


def header(shape: str, dtype: str = "<f8") -> bytes:
    """An npy file without its values."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def declaring(content: bytes, size: int) -> bytes:
    """A zip file whose only member declares another size, in both of its headers."""
    place = content.index(b"PK\x01\x02")
    size_bytes = struct.pack("<I", size)
    return content[:22] + size_bytes + content[26 : place + 24] + size_bytes + content[place + 28 :]


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "max_read", lambda: 10_000)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.usefixtures("small_limit")
def test_a_bomb_in_an_idx_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"images{suffix}"
    head = struct.pack(">BBBBI", 0, 0, 8, 1, 20_000)
    path.write_bytes(gzip.compress(head + bytes(20_000)) if suffix else head)
    with pytest.raises(DamagedError, match="it declares 19.5 KiB"):
        read_idx(path)


def test_no_more_is_inflated_than_the_header_says(tmp_path: Path) -> None:
    head, path = struct.pack(">BBBBI", 0, 0, 8, 1, 10), tmp_path / "images.gz"
    path.write_bytes(gzip.compress(head + bytes(100_000)))
    with pytest.raises(DamagedError, match="more bytes instead of 10"):
        read_idx(path)


@pytest.mark.usefixtures("small_limit")
def test_a_bomb_in_an_npz_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(inputs=np.zeros(10_000)))
    assert path.stat().st_size < 1000
    with pytest.raises(DamagedError, match="it declares 78.2 KiB"):
        load_npz(path)


@pytest.mark.usefixtures("small_limit")
def test_a_bomb_that_declares_less_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(declaring(zipped("x.npy", header("(100000,)") + bytes(800_000)), 500))
    with pytest.raises(DamagedError, match="is damaged"):
        load_npz(path)


@pytest.mark.parametrize("shape", ["(43980465111040,)", "(1000000, 1000000)", "(50,)"])
def test_a_header_that_promises_more_than_there_is(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(header(shape) + bytes(80))
    with pytest.raises(DamagedError, match="its header declares .*, 80 bytes follow"):
        load_npy(path)
    (tmp_path / "x.npz").write_bytes(zipped("x.npy", header(shape) + bytes(80)))
    with pytest.raises(DamagedError, match="its header declares .*, 80 bytes follow"):
        load_npz(tmp_path / "x.npz")


@pytest.mark.parametrize("array", [np.array(["a", "b"]), np.array([1j]), np.array([b"a"])])
def test_only_numbers_are_read(tmp_path: Path, array: np.ndarray) -> None:
    path = tmp_path / "boston_housing.npz"
    path.write_bytes(npz(x=array, y=array))
    with pytest.raises(DamagedError, match="not numbers"):
        read_boston(path)


def test_lists_of_strings_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "boston_housing.npz"
    path.write_bytes(npz(x=np.array([["a"]], dtype=object), y=np.array([["b"]], dtype=object)))
    with pytest.raises(DamagedError, match="could not convert"):
        read_boston(path)


ODD = [np.full(3, 77), np.zeros(()), np.zeros((0, 4)), np.ones((2, 3))]


@pytest.mark.parametrize("value", ODD)
def test_odd_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: np.ndarray) -> None:
    monkeypatch.setenv("FOCUSING_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "mnist-cluttered").mkdir()
    names = [f"{axis}_{part}" for axis in "xy" for part in ("train", "valid", "test")]
    path = tmp_path / "mnist-cluttered" / "mnist_cluttered_60x60_6distortions.npz"
    path.write_bytes(npz(**dict.fromkeys(names, value)))
    with pytest.raises(UserError, match="is damaged"):
        clt(variant="original", data_dir=tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
def test_pipes_devices_and_folders_are_not_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    digits(tmp_path / "mnist")
    path = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    path.unlink()
    make(path)
    with pytest.raises(UserError, match="train-labels-idx1-ubyte.gz is a .*, not a file"):
        mnist(data_dir=tmp_path)


def test_an_image_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.png"
    Image.new("L", (50, 50)).save(path)
    for limit in (2000, 1000):  # a warning of Pillow's, and an error
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        expected = f"more than {limit // 1000} 000 pixels"
        with pytest.raises(DamagedError, match=expected), open_image(path):
            pass


def test_no_program_is_started_for_an_image(tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(DamagedError, match="cannot identify"), open_image(path):
        pass


def test_an_archive_that_would_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_EXTRACTED", 10_000)
    (tmp_path / "x.zip").write_bytes(zipped("a.txt", bytes(20_000)))
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = 20_000
        archive.addfile(member, io.BytesIO(bytes(20_000)))
    for name in ("x.zip", "x.tar.gz"):
        with pytest.raises(DamagedError, match="it would take 19.5 KiB or more"):
            extract(tmp_path / name, tmp_path / "out", r"(.*)")
    assert not (tmp_path / "out").exists()
