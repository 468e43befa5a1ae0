"""Collecting records: search, cache, duplicates and damage."""

import json
import os
from pathlib import Path

import pytest

from focusing.results.collect import collect
from focusing.results.store import read_record, write_record
from tests.unit.reports.records import add_run


def test_run_has_the_values_of_its_record(tmp_path: Path) -> None:
    folder = add_run(
        tmp_path, "e", "dna", "focus_s", 17, [0.5, 0.75, 0.625], val=[0.1, 0.2, 0.3], size="quick"
    )
    add_run(tmp_path, "other", "dna", "dense", 0, [0.5])
    collection = collect([tmp_path])
    [run] = collection.of("e")
    assert (run.path, run.experiment, run.data, run.model) == (folder, "e", "dna", "focus_s")
    assert (run.seed, run.size, run.variant, run.protocol) == (17, "quick", "text", "holdout")
    assert run.scores == {"best_test": 0.75, "holdout": 0.625, "last": 0.625}
    assert run.epochs == {"best_test": 1, "holdout": 2, "last": 2}
    assert (run.holdout, run.lower_is_better, run.metric) == (0.1, False, "accuracy")
    assert run.series()["test/acc"] == [0.5, 0.75, 0.625]
    assert run.sizes == {"train": 100, "test": 25}
    assert collection.warning() is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"schema": 1, "config": {"na',
        b"\xff\xfe",
        b"[1, 2]",
        b'{"accuracy": 0.9}',
        b'{"schema": 99}',
        b'{"schema": 1}',
        b'{"schema": 1, "config": null, "scores": 3}',
    ],
)
def test_invalid_records_are_skipped_and_counted(tmp_path: Path, content: bytes) -> None:
    add_run(tmp_path, "e", "dna", "dense", 0, [0.5])
    for name in ("foreign", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_bytes(content)
    for _ in range(2):  # read, then cached
        collection = collect([tmp_path], tmp_path / "cache.json")
        assert (len(collection.runs), len(collection.unreadable)) == (1, 2)
        assert "Left out 2 unreadable records" in str(collection.warning())


def test_only_changed_files_are_read_again(tmp_path: Path) -> None:
    cache = tmp_path / "report" / "cache.json"
    first = add_run(tmp_path / "runs", "e", "dna", "dense", 0, [0.5] * 10_000)
    add_run(tmp_path / "runs", "e", "dna", "dense", 17, [0.5])
    assert collect([tmp_path / "runs"], cache).read == 2
    assert cache.stat().st_size < 20_000  # without series
    before = cache.stat().st_mtime_ns
    again = collect([tmp_path / "runs"], cache)
    assert (again.read, len(again.runs)) == (0, 2)
    assert cache.stat().st_mtime_ns == before  # nothing new, nothing written
    add_run(tmp_path / "runs", "e", "dna", "dense", 0, [0.75])
    state = (first / "result.json").stat()
    os.utime(first / "result.json", ns=(state.st_atime_ns, state.st_mtime_ns + 1_000_000))
    changed = collect([tmp_path / "runs"], cache)
    assert changed.read == 1
    assert sorted(run.scores["best_test"] for run in changed.runs) == [0.5, 0.75]
    (first / "result.json").unlink()
    assert len(collect([tmp_path / "runs"], cache).runs) == 1


@pytest.mark.parametrize(
    "content", ["", "[]", '{"schema": 0, "files": {}}', '{"schema": 1, "files": {"a": [1]}}']
)
def test_damaged_cache_is_replaced(tmp_path: Path, content: str) -> None:
    add_run(tmp_path, "e", "dna", "dense", 0, [0.5])
    cache = tmp_path / "cache.json"
    cache.write_text(content)
    assert len(collect([tmp_path], cache).runs) == 1
    assert len(json.loads(cache.read_text())["files"]) == 1


def test_unreadable_file_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    add_run(tmp_path, "e", "dna", "dense", 0, [0.5])
    with monkeypatch.context() as context:
        context.setattr(Path, "read_bytes", denied)
        [(_, reason)] = collect([tmp_path], tmp_path / "cache.json").unreadable
    assert reason == "Permission denied"
    assert len(collect([tmp_path], tmp_path / "cache.json").runs) == 1


def test_copies_count_once(tmp_path: Path) -> None:
    for place, score in (("outputs", 0.5), ("results", 0.75)):
        when = f"2026-01-0{1 + (place == 'results')}T00:00:00+00:00"
        add_run(tmp_path / place, "e", "dna", "dense", 0, [score], finished=when)
    collection = collect([tmp_path / "outputs", tmp_path / "results", tmp_path])
    assert [run.scores["best_test"] for run in collection.runs] == [0.75]  # the later one
    assert collection.repeated == 1


def test_failed_runs_are_listed_until_repeated(tmp_path: Path) -> None:
    folder = add_run(tmp_path / "a", "e", "dna", "dense", 0, [], status="failed", error="diverged")
    record = read_record(folder) or {}
    write_record(folder, {**record, "data": None, "metric": None})  # failed before loading data
    add_run(tmp_path, "e", "dna", "dense", 7, [0.5], status="pruned")  # is not a failure
    collection = collect([tmp_path])
    assert (collection.runs, [run.error for run in collection.failed]) == ((), ["diverged"])
    assert collection.failed[0].data == "dna"
    add_run(tmp_path / "b", "e", "dna", "dense", 0, [0.5], finished="2025-01-01T00:00:00+00:00")
    collection = collect([tmp_path])
    assert (len(collection.runs), collection.failed) == (1, ())


def test_hidden_folders_are_not_searched(tmp_path: Path) -> None:
    folder = add_run(tmp_path, "e", "dna", "dense", 0, [0.5])
    folder.rename(folder.with_name(".seed=0.previous"))  # as while a run is repeated
    collection = collect([tmp_path])
    assert (collection.runs, collection.failed, collection.unreadable) == ((), (), ())
