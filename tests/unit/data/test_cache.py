"""The cache of decoded arrays: built once, memory-mapped, shared by runs."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from focusing.data.cache import cached
from focusing.data.decoders import DamagedError
from focusing.errors import UserError
from tests.unit.data.makers import run_twice

ARRAYS = {"inputs": np.arange(12, dtype=np.uint8).reshape(3, 4), "count": np.array(3)}


class Builder:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return ARRAYS


def test_arrays_are_built_once_per_origin_and_mapped(cache: Path) -> None:
    build = Builder()
    first, second, other = (cached("thing", {"a": number}, build) for number in (1, 1, 2))
    assert build.calls == 2
    assert first.content == second.content == other.content
    assert len(list(cache.glob("thing-*"))) == 2
    assert isinstance(second.arrays["inputs"], np.memmap)
    assert second.arrays["count"] == 3
    first.arrays["inputs"][:] = 9  # does not change the cache
    again = cached("thing", {"a": 1}, build).arrays["inputs"]
    np.testing.assert_array_equal(again, ARRAYS["inputs"])


@pytest.mark.parametrize("name", ["inputs.npy", "about.json"])
def test_a_damaged_entry_is_built_again(cache: Path, name: str) -> None:
    build = Builder()
    cached("thing", {}, build)
    (file,) = cache.glob(f"thing-*/{name}")
    file.write_bytes(file.read_bytes()[:-5])
    again = cached("thing", {}, build)
    assert build.calls == 2
    np.testing.assert_array_equal(again.arrays["inputs"], ARRAYS["inputs"])


def test_a_damaged_file_is_renamed_and_leaves_no_entry(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")

    def fail() -> dict[str, np.ndarray]:
        raise DamagedError(path, "too short")

    with pytest.raises(
        UserError,
        match=r"file is damaged \(too short\): it is now file.corrupt; put a good copy there, or",
    ):
        cached("thing", {}, fail)
    assert not path.exists()
    assert (tmp_path / "file.corrupt").read_bytes() == b"x"
    assert not list(cache.glob("thing-*"))


def test_without_a_writable_cache_arrays_stay_in_memory(cache: Path) -> None:
    cache.write_text("in the way")
    entry = cached("thing", {}, Builder())
    np.testing.assert_array_equal(entry.arrays["inputs"], ARRAYS["inputs"])
    cache.unlink()
    assert entry.content == cached("thing", {}, Builder()).content


def build_slowly(log: Path, folder: str) -> None:
    os.environ["FOCUSING_CACHE_DIR"] = folder

    def build() -> dict[str, np.ndarray]:
        with log.open("a") as file:
            file.write("x")
        time.sleep(0.5)
        return {"a": np.arange(5)}

    assert cached("thing", {}, build).arrays["a"].sum() == 10


def test_two_processes_build_once(tmp_path: Path, cache: Path) -> None:
    log = tmp_path / "log"
    assert run_twice(build_slowly, log, str(cache)) == [0, 0]
    assert log.read_text() == "x"
