"""The house keeps its rules: docs/architecture.md is true, files are short, names unique."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [path for path in ROOT.glob("src/**/*.py") if "__pycache__" not in path.parts]
PAGE = ROOT / "docs" / "architecture.md"


def test_files_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:src/|train)[\w/]*\.py)`", PAGE.read_text()))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_a_newcomer_reads_at_most_eight_files() -> None:
    rows = re.findall(r"^\| (a|the) (\w+)[^|]*\|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    counts = {subject: files.count(".py`") for _, subject, files in rows if ".py`" in files}
    assert counts.keys() >= {"training", "layer", "table", "local"}
    assert max(counts.values()) <= 8
    assert counts["layer"] <= 5


def test_no_file_is_longer_than_four_hundred_lines() -> None:
    files = [*SOURCES, *ROOT.glob("tests/**/*.py")]
    lengths = {path: len(path.read_text().splitlines()) for path in files}
    assert {str(path): lines for path, lines in lengths.items() if lines > 400} == {}


def test_no_two_files_of_the_package_share_a_name() -> None:
    names = Counter(path.name for path in SOURCES if path.name != "__init__.py")
    names["functional.py"] -= 1  # focusing.functional is the public face of nn/ops/functional.py
    assert [name for name, count in names.items() if count > 1] == []
