"""The random trials of Table 1, in pairs."""

from pathlib import Path
from typing import Any

import pytest
from scipy import stats as scipy_stats

from focusing.reports.figures.comparison_figures import trial_charts
from focusing.reports.tables import Table
from focusing.reports.tables.trial_tables import marginal_tables, trial_tables
from focusing.results.collect import collect
from tests.unit.reports.records import add_run, charts_of, of_protocol, texts

GRID = [(0, "left"), (0, "sides"), (4, "left"), (4, "sides"), (8, "left"), (8, "sides")]


def add_trial(
    folder: Path,
    trial: int,
    scores: dict[str, float],
    noise: int = 0,
    position: str = "left",
    changes: dict[str, Any] | None = None,
    **more: Any,
) -> None:
    for model, score in scores.items():
        options = {
            "sweep.trial": trial,
            "data.seed": trial,
            "data.informative": 8,
            "data.noise": noise,
            "data.noise_position": position,
            "model.hidden": [4 + trial % 3],
            "optim.lr": (0.01, 0.001)[trial % 2],
            **(changes or {}),
        }
        about = {"fingerprint": f"t{trial}", **more}
        add_run(folder, "table1", "synthetic", model, 0, [0.2, score], options=options, **about)


def cells(table: Table, noise: str, position: str) -> list[str]:
    [row] = [row for row in texts(table) if row[:2] == [noise, position]]
    return row


def test_by_parameter(tmp_path: Path) -> None:
    """Four hidden neurons gain nothing, five and six do; clean trials are told from noisy ones."""
    for trial in range(24):
        noise = (0, 8)[trial // 3 % 2]
        gap = 0.02 * (trial % 3 > 0) * (noise > 0) + 0.001 * (trial % 5 - 2)
        add_trial(tmp_path, trial, {"dense": 0.5, "focus_s": 0.5 + gap}, noise)
    [table] = marginal_tables(collect([tmp_path]))
    assert table.name == "table1_full_text_by_parameter"
    widths = {
        (r["value"], r["trials"]): r for r in table.records if r["parameter"] == "hidden neurons"
    }
    assert [widths[width, "noisy"]["pairs"] for width in (4, 5, 6)] == [4, 4, 4]
    assert widths[4, "noisy"]["difference"] == pytest.approx(0, abs=0.2)
    assert widths[5, "noisy"]["difference"] == pytest.approx(2, abs=0.2)
    assert widths[5, "clean"]["difference"] == pytest.approx(0, abs=0.2)
    assert "clusters" not in {record["parameter"] for record in table.records}  # all drew the same


def test_by_noise_and_position(tmp_path: Path) -> None:
    gaps = {0: -0.02, 4: 0.01, 8: 0.03}
    for trial in range(24):
        noise, position = GRID[trial % 6]
        gap = gaps[noise] + 0.001 * (trial // 6)
        add_trial(tmp_path, trial, {"dense": 0.5, "focus_s": 0.5 + gap}, noise, position)
    [table] = trial_tables(collect([tmp_path]))
    assert table.name == "table1_full_text"
    assert len(table.rows) == 10  # without noise there is no position
    assert cells(table, "all", "all")[2:5] == ["24", "50.00", "50.82"]
    clean = cells(table, "0", "all")
    assert (clean[2], clean[5][:5], clean[-2]) == ("8", "−1.85", "0.00")
    [record] = [r for r in of_protocol(table) if (r["noise"], r["position"]) == ("1", "sides")]
    expected = scipy_stats.ttest_1samp([3.0, 3.1, 3.2, 3.3], 0)
    assert record["difference"] == pytest.approx(3.15)
    assert record["p_paired"] == pytest.approx(expected.pvalue)
    assert (record["low"], record["high"]) == pytest.approx(tuple(expected.confidence_interval()))
    # what the author's notebook kept, beside it
    assert cells(table, "1", "all")[-1] == "+3.33"
    assert cells(table, "0", "all")[-1] == "−2.10"
    assert cells(table, "all", "left")[-1] == "+1.02"
    assert cells(table, "1", "left")[-1] == "–"


def test_the_notebook_put_noise_on_each_side(tmp_path: Path) -> None:
    author = {"variant": "author", "position": "sides"}
    for trial, noise in enumerate((0, 8, 16)):
        add_trial(tmp_path, trial, {"dense": 0.5, "focus_s": 0.6}, noise, **author)
    [table] = trial_tables(collect([tmp_path]))
    assert [cells(table, level, "all")[2] for level in ("0", "0.5", "1")] == ["1"] * 3


def test_only_pairs_count(tmp_path: Path) -> None:
    add_trial(tmp_path, 0, {"dense": 0.5, "focus_s": 0.6}, changes={"sweep.changed": "length"})
    add_trial(tmp_path, 1, {"dense": 0.9})
    add_trial(tmp_path, 2, {"focus_s": 0.1})
    [table] = trial_tables(collect([tmp_path]))
    assert cells(table, "all", "all")[2:6] == ["1", "50.00", "60.00", "+10.00 p=–"]
    assert "749 trials lack one of the two networks, or both, on the same data." in table.notes
    assert table.commands == {"1": "python train.py experiment=table1"}
    assert any("In 1 trial the drawn length" in note for note in table.notes)


def test_a_whole_sweep_lacks_nothing(tmp_path: Path) -> None:
    for trial in range(3):
        add_trial(tmp_path, trial, {"dense": 0.5, "focus_s": 0.6}, changes={"sweep.trials": 3})
    [table] = trial_tables(collect([tmp_path]))
    assert (table.commands, len(table.notes)) == ({}, 3)


def test_half_a_sweep_has_no_pairs_and_none_a_command(tmp_path: Path) -> None:
    [table] = trial_tables(collect([tmp_path]))
    assert table.commands == {"1": "python train.py experiment=table1"}
    for model in ("dense", "focus_s"):
        add_trial(tmp_path / model, 0, {model: 0.5}, size="quick")
        [table] = trial_tables(collect([tmp_path / model]))
        assert table.rows == ()
        assert table.commands == {"1": "python train.py experiment=table1 size=quick"}


def test_other_runs_have_tables_of_their_own(tmp_path: Path) -> None:
    pair = {"dense": 0.5, "focus_s": 0.6}
    add_trial(tmp_path, 0, pair)
    add_trial(tmp_path, 0, pair, size="quick")
    add_trial(tmp_path, 0, pair, variant="author")
    add_trial(tmp_path, 0, pair, changes={"trainer.max_epochs": 3})
    add_trial(tmp_path, 0, {"focus_c": 0.7})
    tables = trial_tables(collect([tmp_path]))
    assert len({table.name for table in tables}) == len(tables) == 5
    assert sum("trainer.max_epochs=3" in table.title for table in tables) == 1


def test_trials_on_other_data_make_no_pair(tmp_path: Path) -> None:
    add_trial(tmp_path, 0, {"dense": 0.5, "focus_s": 0.6})
    add_trial(tmp_path, 1, {"dense": 0.5})
    anew = {"data.n_samples": 999}
    add_trial(tmp_path, 1, {"focus_s": 0.9}, changes=anew, fingerprint="drawn anew")
    [table] = trial_tables(collect([tmp_path]))
    assert {record["pairs"] for record in table.records} == {1}
    assert [len(chart.rows) for chart in charts_of(trial_charts, collect([tmp_path]))] == [1]
