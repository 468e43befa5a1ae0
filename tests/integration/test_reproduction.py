"""REPRODUCTION.md and README.md agree with the committed records."""

import csv
import importlib
import lzma
import re
from pathlib import Path
from types import ModuleType

import pytest

from focusing.reports.tables.files import write_tables
from focusing.results.collect import collect
from focusing.results.store import ARCHIVE
from tests.integration.commands import ROOT, tracked

RESULTS = ROOT / "results"
MAX_WORDS = 3000
REPORT = "results/report"
NO_MEASUREMENTS = (
    r"Tables? \d( to \d)?|CIFAR-10|VGG16|AVX-512|AVX2|author2018|of 2018|95 %|0\.05|\bt = 1\b",
    r"750 random|200\.|150 epochs|momentum \.5|10 000 samples|1000 \$|at (64|800)\b|near 0\.1",
    r"batch(es)? of \d+|\d+ or more|at 70 % sparsity|at 90 %|beyond 70 %|with 256 neurons",
    r"20 000 (images|samples)|128|10 epochs|15 epochs|5 epochs on 5000 samples|within \.2 %",
    r"\bl2:|\b\w+-2d\b|\b[12]-D\b|1e-5 or 1e-3",
)
"""Numbers that a template may contain: names, settings of the paper, significance levels."""


@pytest.fixture
def quote(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(RESULTS)
    return importlib.import_module("quote")


def test_texts_are_up_to_date(quote: ModuleType) -> None:
    """If not, run make results. If a sentence is listed, it is no longer true: rewrite it."""
    texts, false = quote.written()
    assert false == []
    for name, text in texts.items():
        assert (ROOT / name).read_text() == text
    assert len(texts["REPRODUCTION.md"].split()) <= MAX_WORDS


def test_false_sentences_are_named(quote: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    table = quote.evidence.table

    def worse(name: str) -> list[dict[str, object]]:
        return [row | ({"p_holm": 0.9} if row.get("data") == "lfw" else {}) for row in table(name)]

    monkeypatch.setattr(quote.evidence, "table", worse)
    texts, false = quote.written()
    assert any(sentence.startswith("Focus-s reaches") for sentence in false)
    assert "|LFW-Faces|Focus-s|+4.57|better|text|+5.95|" in texts["REPRODUCTION.md"]
    assert "We found no difference on faces (" in " ".join(texts["REPRODUCTION.md"].split())
    assert "|faces|+4.57||65.87 → 71.83, +5.95|" in texts["README.md"]  # no longer bold


def test_only_a_data_set_without_any_runs_has_a_row_that_says_so(quote: ModuleType) -> None:
    compared = list(quote.evidence.differences())
    run = {(row["experiment"], row["data"]) for row in compared if row["ours"]}
    assert run
    missing = [(row["experiment"], row["data"]) for row in compared if not row["ours"]]
    assert [cell for cell in missing if cell in run] == []
    assert len(missing) == len(set(missing))


@pytest.mark.parametrize("name", sorted(path.name for path in RESULTS.glob("*.j2")))
def test_templates_contain_no_measurements(name: str) -> None:
    text = (RESULTS / name).read_text()
    for syntax in (r"\{#.*?#\}", r"\{\{.*?\}\}", r"\{%.*?%\}", r"```.*?```", r"`[^`]*`"):
        text = re.sub(syntax, "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for allowed in NO_MEASUREMENTS:
        text = re.sub(allowed, "", text, flags=re.MULTILINE)
    assert [line for line in text.splitlines() if re.search(r"\d", line)] == []


def test_tables_match_the_records(tmp_path: Path) -> None:
    write_tables(collect([RESULTS]), tmp_path)
    published = ROOT / REPORT / "tables"
    for made in sorted((tmp_path / "tables").glob("*.md")):
        assert made.read_text() == (published / made.name).read_text()
    for made in sorted((tmp_path / "tables").glob("*.csv")):
        for ours, theirs in zip(_cells(made), _cells(published / made.name), strict=True):
            assert ours == theirs or float(ours) == pytest.approx(float(theirs), rel=1e-6)


def test_every_published_figure_is_part_of_the_report() -> None:
    pictures = [path for path in tracked(f"{REPORT}/figures") if path.suffix in (".png", ".gif")]
    text = (ROOT / REPORT / "figures" / "all.md").read_text()
    assert [path.name for path in pictures if f"({path.name})" not in text] == []


def _cells(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return [cell for row in csv.reader(file) for cell in row]


def test_archives_are_small_and_contain_no_local_paths() -> None:
    files = tracked("results")
    assert sum(path.stat().st_size for path in files) < 20e6
    archives = [path for path in files if path.name == ARCHIVE]
    assert archives
    for path in archives:
        text = lzma.decompress(path.read_bytes()).decode()
        assert '"paths"' not in text
        assert "/tmp/" not in text  # noqa: S108
