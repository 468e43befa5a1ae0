"""An archive says what the run folders said, in less space, and without this machine's paths."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from focusing.cli import main as command
from focusing.errors import UserError
from focusing.reports.archive import MAX_NEURONS, MAX_NEURONS_OF_MANY, MAX_TIMES, MAX_TIMES_OF_MANY
from focusing.reports.foci import read_foci
from focusing.results.collect import Run, collect
from focusing.results.store import ARCHIVE, read_archive, write_archive
from tests.command_line import archive as main
from tests.unit.reports.records import add_foci, add_run


def facts(run: Run) -> tuple[object, ...]:
    return run.experiment, run.data, run.model, run.seed, run.status, run.scores, run.config_hash


def test_records_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs, results = tmp_path / "outputs", tmp_path / "results"
    for seed in (0, 17):
        add_run(outputs, "e", "dna", "focus_s", seed, [0.5, 1 / 3], val=[0.1, 0.2])
    add_run(outputs, "f", "dna", "dense", 0, [0.5], status="failed", error="no luck")
    add_run(outputs, "e", "dna", "dense", 0, [0.25])
    main([str(outputs), "--out", str(results)])
    assert "4 records" in capsys.readouterr().out
    before, after = collect([outputs]), collect([results], tmp_path / "cache.json")
    for archived in (after, collect([results], tmp_path / "cache.json")):  # read, then remembered
        assert [*map(facts, archived.runs)] == [*map(facts, before.runs)]
        assert [*map(facts, archived.failed)] == [*map(facts, before.failed)]
    assert after.runs[1].series()["test/acc"] == [0.5, 0.33333]
    assert after.runs[1].scores["last"] == 1 / 3  # scores are exact
    assert "paths" not in after.runs[0].config
    assert str(tmp_path) not in lzma.decompress((results / "e" / ARCHIVE).read_bytes()).decode()


def test_series_of_random_trials_are_rounded_more(tmp_path: Path) -> None:
    outputs, results = tmp_path / "outputs", tmp_path / "results"
    drawn = {"data.noise": 5, "data.informative": 5, "data.noise_position": "left"}
    options = {"sweep.trial": 4, **drawn}
    add_run(outputs, "t", "synthetic", "dense", 0, [0.5, 1 / 3], options=options)
    main([str(outputs), "--out", str(results)])
    [trial] = collect([results]).runs
    assert trial.series()["test/acc"] == [0.5, 0.333]
    assert trial.scores["last"] == 1 / 3


def test_an_archive_grows_and_is_not_written_without_need(tmp_path: Path) -> None:
    first, other, second, results = (tmp_path / name for name in ("1", "f", "2", "results"))
    add_run(first, "e", "dna", "dense", 0, [0.25])
    add_run(other, "f", "dna", "dense", 0, [0.25])
    add_run(second, "e", "dna", "dense", 17, [0.5])
    main([str(first), "--out", str(results)])
    once = (results / "e" / ARCHIVE).read_bytes()
    main([str(first), "--out", str(results)])
    assert (results / "e" / ARCHIVE).read_bytes() == once
    written = (results / "e" / ARCHIVE).stat().st_mtime_ns
    main([str(other), "--out", str(results)])
    assert (results / "e" / ARCHIVE).stat().st_mtime_ns == written
    main([str(second), "--out", str(results)])
    assert [run.seed for run in collect([results]).of("e")] == [0, 17]


def test_what_an_older_version_archived_keeps_its_name(tmp_path: Path) -> None:
    first, second, results = (tmp_path / name for name in ("first", "second", "results"))
    add_run(first, "e", "boston", "dense", 0, [2.0])
    main([str(first), "--out", str(results)])
    [(_, record)] = read_archive(results / "e" / ARCHIVE)
    write_archive(results / "e", [("0123456789/seed=0", record)])
    add_run(second, "e", "boston", "dense", 17, [3.0])
    main([str(second), "--out", str(results)])
    assert "0123456789/seed=0" in dict(read_archive(results / "e" / ARCHIVE))
    assert len(collect([results]).runs) == 2


def test_runs_on_other_data_keep_their_own_folder(tmp_path: Path) -> None:
    for name in "ab":
        add_run(tmp_path / name, "e", "dna", "dense", 0, [0.25], fingerprint=name)
    main([str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "results")])
    assert len(list(read_archive(tmp_path / "results" / "e" / ARCHIVE))) == 2


@pytest.mark.parametrize(
    ("neurons", "times", "most"),
    [
        (3, MAX_TIMES, MAX_NEURONS),
        (64, MAX_TIMES, MAX_NEURONS),
        (200, MAX_TIMES_OF_MANY, MAX_NEURONS_OF_MANY),
    ],
)
def test_foci_are_thinned_and_stay_readable(
    tmp_path: Path, neurons: int, times: int, most: int
) -> None:
    folder = add_run(tmp_path / "outputs", "e", "dna", "focus_s", 0, [0.25])
    add_foci(folder, neurons=neurons)
    main([str(tmp_path / "outputs"), "--out", str(tmp_path / "results")])
    [run] = collect([tmp_path / "results"]).runs
    [foci], [whole] = read_foci(run.path, run.sizes), read_foci(folder, run.sizes)
    assert foci.mu.shape[1] == neurons
    assert [len(item) for item in (foci.shown, foci.first, foci.last)] == [min(neurons, most)] * 3
    np.testing.assert_allclose(foci.tau, whole.tau, rtol=0, atol=0)
    assert len(foci.epochs) == times
    assert (foci.epochs[0], foci.epochs[-1]) == (0, 59)
    assert foci.mu.dtype == np.float32
    np.testing.assert_allclose(foci.mu[-1], whole.mu[-1], atol=3e-4)
    rows = np.searchsorted(whole.shown, foci.shown)
    np.testing.assert_allclose(foci.last, whole.last[rows], atol=3e-4)


def test_large_arrays_are_kept_of_the_median_run_alone_and_not_of_a_small_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("focusing.reports.archive.SMALL_BYTES", 0)
    quick = add_run(tmp_path / "outputs", "e", "dna", "focus_s", 34, [0.5], size="quick")
    add_foci(quick)
    for seed, score in ((0, 0.25), (17, 0.75)):
        add_foci(add_run(tmp_path / "outputs", "e", "dna", "focus_s", seed, [score]))
    for _ in range(2):  # the second time, from the archive itself
        main([str(tmp_path / "outputs"), "--out", str(tmp_path / "results")])
        kept = sorted((tmp_path / "results").rglob("focus.npz"))
        assert [item.parent.name for item in kept] == ["seed=17"]
    add_foci(add_run(tmp_path / "outputs", "e", "dna", "focus_s", 51, [0.5]))  # the new median
    main([str(tmp_path / "outputs" / "e"), "--out", str(tmp_path / "results")])
    [kept] = sorted((tmp_path / "results").rglob("focus.npz"))
    assert kept.parent.name == "seed=51"


def test_a_damaged_archive_is_skipped_and_told(tmp_path: Path) -> None:
    add_run(tmp_path / "e", "e", "dna", "dense", 0, [0.25])
    (tmp_path / "results").mkdir()
    whole = lzma.compress(b'{"folder": "a/seed=0"}\n')
    for content in (whole[:-3], b"no xz", lzma.compress(b"no json"), lzma.compress(b"[]\n")):
        (tmp_path / "results" / ARCHIVE).write_bytes(content)
        archived = collect([tmp_path])
        assert len(archived.runs) == 1
        told = archived.warning() or ""
        assert "not an archive of records" in told or "line 1: " in told


@pytest.mark.parametrize("kind", ["cut off", "of a newer version", "of another kind"])
def test_published_records_that_cannot_be_read_are_not_overwritten(
    tmp_path: Path, kind: str
) -> None:
    add_run(tmp_path / "outputs", "e", "dna", "dense", 0, [0.25])
    main([str(tmp_path / "outputs"), "--out", str(tmp_path / "results")])
    archive = tmp_path / "results" / "e" / ARCHIVE
    lines = lzma.decompress(archive.read_bytes())
    changed = {
        "cut off": archive.read_bytes()[:-20],
        "of a newer version": lzma.compress(lines + lines.replace(b'"schema":', b'"schema":9')),
        "of another kind": lzma.compress(lines + b"[]\n"),
    }[kind]
    archive.write_bytes(changed)
    add_run(tmp_path / "outputs", "e", "dna", "dense", 17, [0.5])
    with pytest.raises(UserError, match="has records that cannot be read .*: restore it, move"):
        main([str(tmp_path / "outputs"), "--out", str(tmp_path / "results")])
    assert archive.read_bytes() == changed


def test_new_records_that_cannot_be_read_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = add_run(tmp_path / "outputs", "e", "dna", "dense", 0, [0.25])
    (damaged / "result.json").write_text("{")
    command = [str(tmp_path / "outputs"), "--out", str(tmp_path / "results")]
    with pytest.raises(UserError, match="No finished runs below"):
        main(command)
    add_run(tmp_path / "outputs", "e", "dna", "dense", 17, [0.5])
    main(command)
    printed = capsys.readouterr()
    assert printed.out.startswith("1 records: ")
    assert "Left out a record that cannot be read" in printed.err


def test_nothing_to_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run(tmp_path / "outputs", "e", "dna", "dense", 0, [0.25])
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    main([])
    monkeypatch.setattr("sys.argv", ["focusing", "archive", "empty"])
    with pytest.raises(SystemExit):  # what is in results already is nothing new
        command()
    assert "No finished runs below empty" in capsys.readouterr().err
