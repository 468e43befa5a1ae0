"""A report is made again if, and only if, what it is made from has changed."""

import os
from pathlib import Path

import pytest

from focusing.reports.report_cache import FILE, remember, report_state, unchanged
from focusing.results.collect import collect
from tests.unit.reports.records import leave


def test_the_state_follows_records_and_arrays(tmp_path: Path) -> None:
    folder = leave(tmp_path, "e", "dna", "dense", 0, [0.5])
    (folder / "focus.npz").write_bytes(b"a")
    state = report_state(collect([tmp_path]))
    assert report_state(collect([tmp_path])) == state
    os.utime(folder / "focus.npz", ns=(0, 0))
    touched = report_state(collect([tmp_path]))
    leave(tmp_path, "e", "dna", "dense", 1, [0.5])
    assert len({state, touched, report_state(collect([tmp_path]))}) == 3
    collection = collect([tmp_path])
    (folder / "result.json").unlink()  # meanwhile
    assert report_state(collection)


@pytest.mark.parametrize("damage", ["", "[", "[]", '{"files": 3}'])
def test_it_is_kept_until_its_state_or_a_file_changes(tmp_path: Path, damage: str) -> None:
    page = tmp_path / "index.html"
    assert not unchanged(tmp_path, "a")
    page.write_text("x")
    remember(tmp_path, "a", [page])
    assert unchanged(tmp_path, "a")
    assert not unchanged(tmp_path, "b")
    remember(tmp_path, "a", [])
    assert not page.exists()  # what a report no longer consists of goes
    (tmp_path / FILE).write_text(damage)
    assert not unchanged(tmp_path, "a")
