"""REPRODUCTION.md says what the committed records say."""

import importlib.util
import lzma
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from focusing.reports.tables.files import write_tables
from focusing.results.archive import ARCHIVE
from focusing.results.collect import collect

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def quote() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quote", RESULTS / "quote.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quoted_tables_are_those_of_the_report(quote: ModuleType) -> None:
    text = (ROOT / "REPRODUCTION.md").read_text()
    assert text.count("<!-- table ") > 5
    assert quote.quoted(text) == text


def test_p_values_in_the_prose_are_in_the_tables(quote: ModuleType) -> None:
    """Holm's correction grows with a table: what was typed by hand goes stale."""
    text = (ROOT / "REPRODUCTION.md").read_text()
    known = [float(p) for p in re.findall(r"p=([\d.e-]+)", text)]
    typed = re.findall(r"p = ([\d.]+(?:e-\d+)?)", quote.BLOCK.sub("", text))
    assert typed
    for p in typed:
        digits = len(p.partition("e")[0].replace(".", "").lstrip("0"))
        assert float(p) in [float(f"{each:.{digits - 1}e}") for each in known], p


def test_tables_are_those_of_the_records(tmp_path: Path) -> None:
    write_tables(collect([RESULTS]), tmp_path)
    for made in sorted((tmp_path / "tables").glob("*.md")):
        assert made.read_text() == (RESULTS / "report" / "tables" / made.name).read_text()


def test_archives_are_small_and_name_no_folder_of_a_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "results"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.splitlines()]
    assert sum(path.stat().st_size for path in files) < 20 * 2**20
    archives = [path for path in files if path.name == ARCHIVE]
    assert archives
    for path in archives:
        text = lzma.decompress(path.read_bytes()).decode()
        assert '"paths"' not in text
        assert "/tmp/" not in text  # noqa: S108


def test_links_and_pictures_exist() -> None:
    text = (ROOT / "REPRODUCTION.md").read_text()
    targets = re.findall(r"\]\(((?!http)[^)#]+)", text)
    assert targets
    assert [each for each in targets if not (ROOT / each).exists()] == []
