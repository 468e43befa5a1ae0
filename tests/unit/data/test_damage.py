import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from focusing.data.decoders import DamagedError, load_npz, read_cifar, reading
from tests.unit.data import makers


def test_an_npz_file_of_another_version_of_zip(tmp_path: Path) -> None:
    content = bytearray(makers.npz(x=np.arange(3)))
    content[content.index(b"PK\1\2") + 6] = 99
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DamagedError, match=r"x\.npz is damaged: zip file version 9\.9"):
        load_npz(tmp_path / "x.npz")


def test_an_array_whose_header_does_not_end(tmp_path: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.arange(3.0))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as packed:
        packed.writestr("x.npy", array.getvalue().replace(b"}", b" "))
    with pytest.raises(DamagedError, match=r"x\.npz is damaged"):
        load_npz(tmp_path / "x.npz")


def test_a_pickle_that_promises_too_much(tmp_path: Path) -> None:
    makers.cifar(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(b"\x80\x04\x95" + struct.pack("<Q", 2**63))
    with pytest.raises(DamagedError, match="data_batch_3 is damaged: FRAME length exceeds"):
        read_cifar(tmp_path)


@pytest.mark.parametrize("error", [MemoryError(), AttributeError("x"), struct.error("x")])
def test_other_errors_of_decoders_are_damage_too(tmp_path: Path, error: Exception) -> None:
    with (
        pytest.raises(DamagedError, match="a is damaged: (MemoryError|x)"),
        reading(tmp_path / "a"),
    ):
        raise error


def test_a_file_that_is_gone_is_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), reading(tmp_path / "a"):
        (tmp_path / "a").read_text()
