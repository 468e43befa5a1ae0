"""Damaged and malicious files are refused before they are decompressed or executed."""

import collections
import gzip
import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from focusing.data import clt, decoders, mnist
from focusing.data.decoders import (
    DamagedError,
    load_npy,
    load_npz,
    load_pickle,
    read_cifar,
    read_idx,
    reading,
)
from focusing.data.image_sets import open_image
from focusing.data.tabular import read_boston
from focusing.errors import UserError
from tests.unit.data import makers
from tests.unit.data.makers import lists, npz


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
def test_a_decompression_bomb_in_an_idx_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"images{suffix}"
    head = struct.pack(">BBBBI", 0, 0, 8, 1, 20_000)
    path.write_bytes(gzip.compress(head + bytes(20_000)) if suffix else head)
    with pytest.raises(DamagedError, match="it declares 19.5 KiB"):
        read_idx(path)


def test_no_more_is_decompressed_than_the_header_declares(tmp_path: Path) -> None:
    head, path = struct.pack(">BBBBI", 0, 0, 8, 1, 10), tmp_path / "images.gz"
    path.write_bytes(gzip.compress(head + bytes(100_000)))
    with pytest.raises(DamagedError, match="more bytes instead of 10"):
        read_idx(path)


@pytest.mark.usefixtures("small_limit")
def test_a_decompression_bomb_in_an_npz_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(inputs=np.zeros(10_000)))
    assert path.stat().st_size < 1000
    with pytest.raises(DamagedError, match="it declares 78.2 KiB"):
        load_npz(path)
    path.write_bytes(declaring(zipped("x.npy", header("(100000,)") + bytes(800_000)), 500))
    with pytest.raises(DamagedError, match="is damaged"):  # it declares less than it holds
        load_npz(path)


@pytest.mark.parametrize("shape", ["(43980465111040,)", "(1000000, 1000000)", "(50,)"])
def test_a_header_that_declares_more_than_there_is(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(header(shape) + bytes(80))
    with pytest.raises(DamagedError, match="its header declares .*, 80 bytes follow"):
        load_npy(path)
    (tmp_path / "x.npz").write_bytes(zipped("x.npy", header(shape) + bytes(80)))
    with pytest.raises(DamagedError, match="its header declares .*, 80 bytes follow"):
        load_npz(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array(["a", "b"]), "not numbers"),
        (np.array([1j]), "not numbers"),
        (np.array([b"a"]), "not numbers"),
        (np.array([["a"]], dtype=object), "could not convert"),
    ],
)
def test_only_numbers_are_read(tmp_path: Path, array: np.ndarray, reason: str) -> None:
    path = tmp_path / "boston_housing.npz"
    path.write_bytes(npz(x=array, y=array))
    with pytest.raises(DamagedError, match=reason):
        read_boston(path)


@pytest.mark.parametrize("value", [np.full(3, 77), np.zeros(()), np.zeros((0, 4)), np.ones((2, 3))])
def test_arrays_of_odd_shapes(tmp_path: Path, value: np.ndarray) -> None:
    (tmp_path / "mnist-cluttered").mkdir()
    names = [f"{axis}_{split}" for axis in "xy" for split in ("train", "valid", "test")]
    path = tmp_path / "mnist-cluttered" / "mnist_cluttered_60x60_6distortions.npz"
    path.write_bytes(npz(**dict.fromkeys(names, value)))
    with pytest.raises(UserError, match="is damaged"):
        clt(variant="original", data_dir=tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
def test_pipes_devices_and_folders_are_not_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    makers.digits(tmp_path / "mnist")
    path = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    path.unlink()
    make(path)
    with pytest.raises(UserError, match="train-labels-idx1-ubyte.gz is a .*, not a file"):
        mnist(data_dir=tmp_path)


def test_image_bombs_and_postscript_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.png"
    Image.new("L", (50, 50)).save(path)
    for limit in (2000, 1000):  # a warning of Pillow's, and an error
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        expected = f"more than {limit // 1000} 000 pixels"
        with pytest.raises(DamagedError, match=expected), open_image(path):
            pass
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(DamagedError, match="cannot identify"), open_image(path):
        pass


def test_any_error_of_a_decoder_becomes_a_damaged_error(tmp_path: Path) -> None:
    for error in (MemoryError(), AttributeError("x"), struct.error("x")):
        with (
            pytest.raises(DamagedError, match="a is damaged: (MemoryError|x)"),
            reading(tmp_path / "a"),
        ):
            raise error
    with pytest.raises(FileNotFoundError), reading(tmp_path / "a"):
        (tmp_path / "a").read_text()  # missing, not damaged


def load(content: bytes) -> Any:
    return load_pickle(io.BytesIO(content))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">f4", "?"])
def test_arrays_survive_pickling(protocol: int, dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    content = {"data": array, "fortran": np.asfortranarray(array), "labels": [1, 2], "name": "x"}
    loaded = load(pickle.dumps(content, protocol))
    for name in ("data", "fortran"):
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == np.dtype(dtype).newbyteorder("=")
    assert loaded["labels"] == [1, 2]


def test_a_python_2_pickle_is_read() -> None:
    head = b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
    head += b"K\x00\x85U\x01b\x87R(K\x01(K\x02K\x02t"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN"
    dtype += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    content = head + dtype + b"\x89U\x04\x01\xff\x80\x04tbu."
    np.testing.assert_array_equal(load(content)["data"], [[1, 255], [128, 4]])


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/focusing-was-here",)


@pytest.mark.parametrize(
    "value", [Evil(), [Evil()], collections.OrderedDict(a=1), np.float64(1), print, os.path.join]
)
def test_a_pickle_cannot_name_anything_else(value: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="it wants to run"):
        load(pickle.dumps(value))
    with pytest.raises(pickle.UnpicklingError, match="rot13 is not allowed"):
        load(b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.")


def test_a_pickle_that_declares_too_much(tmp_path: Path) -> None:
    makers.cifar(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(b"\x80\x04\x95" + struct.pack("<Q", 2**63))
    with pytest.raises(DamagedError, match="data_batch_3 is damaged: FRAME length exceeds"):
        read_cifar(tmp_path)


def test_lists_in_an_npz_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(x=lists([[1, 2], [], [3]]), y=np.array([0, 1, 0])))
    loaded = load_npz(path)
    assert [*map(list, loaded["x"])] == [[1, 2], [], [3]]
    np.testing.assert_array_equal(loaded["y"], [0, 1, 0])
    evil = np.empty(1, dtype=object)
    evil[0] = Evil()
    path.write_bytes(npz(x=evil))
    with pytest.raises(DamagedError, match=r"wants to run posix\.system"):
        load_npz(path)


def flipped(content: bytes, place: int, value: int) -> bytes:
    return content[:place] + bytes([value]) + content[place + 1 :]


WHOLE = npz(x=lists([[1, 2]] * 50), y=np.random.default_rng(0).random(500))
UNENDING = header("(3,)").replace(b"}", b" ") + bytes(24)


@pytest.mark.parametrize(
    "content",
    [
        *(WHOLE[:keep] for keep in (0, 10, 100, -1, -30)),
        flipped(WHOLE, 1000, WHOLE[1000] ^ 1),
        flipped(WHOLE, WHOLE.index(b"PK\1\2") + 6, 99),  # another version of zip
        zipped("x.npy", UNENDING),
    ],
    ids=["empty", "10", "100", "-1", "-30", "bit", "version", "header"],
)
def test_a_damaged_npz_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DamagedError, match=r"x\.npz is damaged"):
        load_npz(tmp_path / "x.npz")
