import os
import time
from pathlib import Path

import numpy as np
import pytest

from focusing.data.cache import decoded
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


def test_arrays_are_built_once_and_mapped() -> None:
    build = Builder()
    first, second = (decoded("thing", {"a": 1}, build) for _ in range(2))
    assert build.calls == 1
    assert first.content == second.content
    assert isinstance(second.arrays["inputs"], np.memmap)
    np.testing.assert_array_equal(second.arrays["inputs"], ARRAYS["inputs"])
    assert second.arrays["count"] == 3


def test_other_origins_are_other_entries(cache: Path) -> None:
    build = Builder()
    for origin in ({"a": 1}, {"a": 2}):
        decoded("thing", origin, build)
    assert build.calls == 2
    assert len(list(cache.glob("thing-*"))) == 2


def test_writing_to_the_arrays_does_not_change_the_cache() -> None:
    decoded("thing", {}, Builder()).arrays["inputs"][:] = 9
    np.testing.assert_array_equal(
        decoded("thing", {}, Builder()).arrays["inputs"], ARRAYS["inputs"]
    )


@pytest.mark.parametrize("name", ["inputs.npy", "about.json"])
def test_a_damaged_entry_is_built_again(cache: Path, name: str) -> None:
    build = Builder()
    decoded("thing", {}, build)
    (file,) = cache.glob(f"thing-*/{name}")
    file.write_bytes(file.read_bytes()[:-5])
    again = decoded("thing", {}, build)
    assert build.calls == 2
    np.testing.assert_array_equal(again.arrays["inputs"], ARRAYS["inputs"])


def test_a_builder_that_fails_leaves_nothing(cache: Path) -> None:
    def fail() -> dict[str, np.ndarray]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        decoded("thing", {}, fail)
    assert not list(cache.glob("thing-*"))


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")

    def fail() -> dict[str, np.ndarray]:
        raise DamagedError(path, "too short")

    with pytest.raises(
        UserError,
        match=r"file is damaged \(too short\): it is now file.corrupt; put a good copy there.$",
    ):
        decoded("thing", {}, fail)
    assert not path.exists()
    assert (tmp_path / "file.corrupt").read_bytes() == b"x"


def test_without_a_cache_arrays_stay_in_memory(cache: Path) -> None:
    cache.write_text("in the way")
    entry = decoded("thing", {}, Builder())
    np.testing.assert_array_equal(entry.arrays["inputs"], ARRAYS["inputs"])
    cache.unlink()
    assert entry.content == decoded("thing", {}, Builder()).content


def build_slowly(log: Path, folder: str) -> None:
    os.environ["FOCUSING_CACHE_DIR"] = folder

    def build() -> dict[str, np.ndarray]:
        with log.open("a") as file:
            file.write("x")
        time.sleep(0.5)
        return {"a": np.arange(5)}

    assert decoded("thing", {}, build).arrays["a"].sum() == 10


def test_two_processes_build_once(tmp_path: Path, cache: Path) -> None:
    log = tmp_path / "log"
    assert run_twice(build_slowly, log, str(cache)) == [0, 0]
    assert log.read_text() == "x"
