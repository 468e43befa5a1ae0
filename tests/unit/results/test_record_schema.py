"""Records that pass the schema can be reported; others are rejected with a reason."""

import io
import json
import lzma
import math
import os
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from focusing.reports.figures.gallery import all_figures
from focusing.reports.page.run_page import run_view
from focusing.reports.settings import editions
from focusing.reports.tables.files import all_tables
from focusing.reports.terminal import summary
from focusing.results.collect import Collection, collect, run_from_record
from focusing.results.record_schema import check_record
from focusing.results.store import ARCHIVE, read_archive
from focusing.validation import NAME, InvalidValueError, make_validator
from tests.unit.reports.records import SMALLEST, add_run

PUBLISHED = Path(__file__).parents[3] / "results"
EVERY = 29
"""Report every n-th of the mutated records that pass; all would take too long."""
Change = Callable[[dict[str, Any]], object]
NESTED: Any = []
for _ in range(60):
    NESTED = [NESTED]
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 3, 1.5, 1e30, 10**30, math.nan, math.inf, "", "x", "../../up", "\ud800",
    "\x1b[2J", "n" * 230, [], [1], ["x"], [[0.5, 1.5]], {}, {"x": 1}, {"error": 1}, NESTED,
)  # fmt: skip


def mutations(value: Any) -> Iterator[Any]:
    """Every copy of nested containers with one value replaced by a strange one, or removed."""
    yield from deepcopy(STRANGE)
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value[:2])):
            removed = value.copy()
            del removed[key]
            yield removed
            for mutated in mutations(value[key]):
                replaced: Any = value.copy()
                replaced[key] = mutated
                yield replaced


@pytest.mark.parametrize("experiment", ["redundancy", "sparsity", "table1", "timing"])
def test_mutated_records_are_rejected_or_reported(experiment: str, tmp_path: Path) -> None:
    record = next(
        record
        for _, record in read_archive(PUBLISHED / experiment / ARCHIVE)
        if not isinstance(record, str) and record["measured"]
    )
    passed = []
    for mutated in mutations(record):
        try:
            check_record(mutated)
        except InvalidValueError as error:
            str(error).encode()  # it can be printed
        else:
            passed.append(mutated)
    assert len(passed) > 100
    runs = [run_from_record(tmp_path, mutated) for mutated in passed[::EVERY]]
    for clear in (all_tables, all_figures, editions):
        clear.cache_clear()  # type: ignore[attr-defined]
    collection = Collection(tuple(run for run in runs if run.status == "done"))
    assert all_tables(collection)
    assert all_figures(collection)
    console = Console(file=io.StringIO())
    for mutated in passed[::EVERY]:
        console.print(summary(mutated, tmp_path))
    for run in collection.runs[:5]:
        object.__setattr__(run, "record", lambda: record)
        assert run_view(run)["title"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda r: r.update(experiment="../../E"), "experiment is not a name"),
        (lambda r: r.update(experiment="n" * 230), "experiment is not a name"),
        (lambda r: r.update(config_hash="/etc"), "config_hash is not a name"),
        (lambda r: r.update(seed=True), "seed should be a valid integer: True"),
        (lambda r: r["data"].update(fingerprint="../x"), "data.fingerprint is not a name"),
        (lambda r: r["data"].update(informative=[3, 900], inputs=20), "not among the inputs"),
        (
            lambda r: r["series"].update({"test/acc": [0.5, math.nan]}),
            "series.test/acc.1 is nan: it must be finite",
        ),
        (lambda r: r["series"].update({"train/acc": [0.5]}), "series have different lengths"),
        (lambda r: r["scores"]["last"].update(epoch=9), "scores.last.epoch is after the last"),
        (lambda r: r["scores"]["best_test"].update(value=1.5), "scores.best_test.value is 1.5"),
        (lambda r: r["scores"].update(best_test=None), "scores.best_test is missing"),
        (lambda r: r["config"]["model"].update(sigma=float("inf")), "config.model.sigma is inf"),
        (
            lambda r: r.update(focus={"h": {"moved": "far"}}),
            "focus.h.moved should be a valid number",
        ),
        (
            lambda r: r.update(measured={"stuck": 3}),
            "measured.stuck should be a valid dictionary: 3",
        ),
        (lambda r: r.update(error="\ud800"), "error has characters that cannot be printed"),
    ],
)
def test_reason_names_the_invalid_value(tmp_path: Path, change: Change, reason: str) -> None:
    add_run(tmp_path, "fine", "dna", "dense", 0, [0.5])
    folder = add_run(tmp_path, "e", "dna", "dense", 0, [0.5, 0.25])
    record = json.loads((folder / "result.json").read_text())
    change(record)
    (folder / "result.json").write_text(json.dumps(record))
    for _ in range(2):  # read, then cached
        collection = collect([tmp_path], tmp_path / "cache.json")
        [(path, message)] = collection.unreadable
        assert path == folder / "result.json"
        assert reason in message
        assert [run.experiment for run in collection.runs] == ["fine"]


def test_invalid_lines_of_an_archive_are_skipped(tmp_path: Path) -> None:
    record = {"schema": 1, **SMALLEST}
    folders = ["a/seed=0", "../up", "/root", "a//b", 3, "", "n" * 230, "b/seed=0"]
    lines = [json.dumps({"folder": name, **record, "seed": i}) for i, name in enumerate(folders)]
    lines += ["[" * 100_000, "{", '{"folder": "c"}']
    (tmp_path / ARCHIVE).write_bytes(lzma.compress("\n".join(lines).encode()))
    collection = collect([tmp_path])
    assert [run.seed for run in collection.runs] == [0, 7]
    numbers = [reason.partition(":")[0] for _, reason in collection.unreadable]
    assert numbers == [f"line {number}" for number in (2, 3, 4, 5, 6, 7, 9, 10, 11)]


def test_pipes_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "result.json")
    assert collect([tmp_path]).unreadable == ((tmp_path / "result.json", "not a file"),)


def test_cache_with_invalid_records_is_replaced(tmp_path: Path) -> None:
    add_run(tmp_path / "runs", "e", "dna", "dense", 0, [0.5])
    cache = tmp_path / "cache.json"
    collect([tmp_path / "runs"], cache)
    cache.write_text(re.sub(r'"experiment":"e"', '"experiment":"../e"', cache.read_text()))
    assert [run.experiment for run in collect([tmp_path / "runs"], cache).runs] == ["e"]


def test_names() -> None:
    validate = make_validator(NAME)
    for name in ("a", "a b", "seed=0", "é", "x.y", "n" * 100):
        validate(name)
    for other in ("", ".", "..", ".x", "a/b", "a\\b", "a\n", "n" * 101):
        with pytest.raises(InvalidValueError, match="is not a name"):
            validate(other)
