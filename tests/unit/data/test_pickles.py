import collections
import io
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from focusing.data.decoders import DamagedError, load_npz, load_pickle
from tests.unit.data.makers import lists, npz


def load(content: bytes) -> Any:
    return load_pickle(io.BytesIO(content))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">f4", "?"])
def test_arrays_survive(protocol: int, dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    loaded = load(pickle.dumps({"data": array, "labels": [1, 2], "name": "x"}, protocol))
    np.testing.assert_array_equal(loaded["data"], array)
    assert loaded["data"].dtype == array.dtype
    assert loaded["labels"] == [1, 2]


def test_fortran_order_survives() -> None:
    array = np.asfortranarray(np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(load(pickle.dumps(array, 2)), array)


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
def test_nothing_else_is_named_let_alone_called(value: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="it wants to run"):
        load(pickle.dumps(value))


def test_a_codec_is_not_a_way_out() -> None:
    content = b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR."
    pickletools.dis(content, out=io.StringIO())
    with pytest.raises(pickle.UnpicklingError, match="rot13 is not allowed"):
        load(content)


def test_lists_in_an_npz_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(x=lists([[1, 2], [], [3]]), y=np.array([0, 1, 0])))
    loaded = load_npz(path)
    assert [list(each) for each in loaded["x"]] == [[1, 2], [], [3]]
    np.testing.assert_array_equal(loaded["y"], [0, 1, 0])


def test_an_npz_file_that_wants_to_run_something(tmp_path: Path) -> None:
    evil = np.empty(1, dtype=object)
    evil[0] = Evil()
    (tmp_path / "x.npz").write_bytes(npz(x=evil))
    with pytest.raises(DamagedError, match=r"wants to run posix\.system"):
        load_npz(tmp_path / "x.npz")


@pytest.mark.parametrize("keep", [0, 10, 100, -1, -30])
def test_a_truncated_npz_file(tmp_path: Path, keep: int) -> None:
    content = npz(x=lists([[1, 2]] * 50), y=np.arange(50))
    (tmp_path / "x.npz").write_bytes(content[:keep])
    with pytest.raises(DamagedError, match=r"x\.npz is damaged"):
        load_npz(tmp_path / "x.npz")


def test_a_flipped_bit_in_an_npz_file(tmp_path: Path) -> None:
    content = bytearray(npz(y=np.random.default_rng(0).random(500)))
    content[1000] ^= 1
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DamagedError):
        load_npz(tmp_path / "x.npz")
