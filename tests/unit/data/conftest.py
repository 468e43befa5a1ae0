"""Each test has its own cache; real files are read from FOCUSING_DATA_DIR."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.data.server import Server


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FOCUSING_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # no server there


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def real() -> Path:
    folder = os.environ.get("FOCUSING_DATA_DIR")
    if not folder:
        pytest.skip("needs the real files: set FOCUSING_DATA_DIR")
    return Path(folder)
