"""Settings of an experiment: repeats over data sets, what they are compared with, their foci."""

import io
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console
from scipy import stats as scipy_stats

from focusing.reports.figures.focus_figures import foci_charts
from focusing.reports.figures.score_figures import sweep_charts
from focusing.reports.tables.blocks import composed
from focusing.reports.tables.experiments import experiment_tables
from focusing.reports.tables.settings import labels, settings_of
from focusing.reports.terminal import table_lines
from focusing.results.collect import collect
from tests.unit.reports.records import leave
from tests.unit.reports.test_tables_other import texts

DENSE, FOCUS = (0.50, 0.61, 0.72, 0.81), (0.55, 0.65, 0.77, 0.85)


def sweep_data(folder: Path, model: str, scores: tuple[float, ...], seed: int = 7) -> None:
    for number, score in enumerate(scores):
        options = {"data.seed": number}
        leave(
            folder, "mine", "synthetic", model, seed, [score],
            fingerprint=f"f{number}", options=options,
        )  # fmt: skip


def leave_rescue(folder: Path) -> None:
    plain = composed("rescue", "paper", "paper", "synthetic", "focus_s")
    assert plain is not None
    for seed, score in enumerate((0.5, 0.6, 0.75)):
        for rate, better in ((plain["optim"]["lr_mu"], 0.0), (0.01, 0.1 + seed / 100)):
            options = {"optim.lr_mu": rate, "data": plain["data"], "model": plain["model"]}
            stuck = {"hidden1": {"neurons": 4, "stuck": [0] if better else [0, 1, 2]}}
            foci = {"hidden1": {"inside_first": 0.0, "inside_last": better * 2, "moved": 0.1}}
            leave(
                folder, "rescue", "synthetic", "focus_s", seed, [score + better],
                options=options, measured={"stuck": stuck}, focus=foci,
            )  # fmt: skip


class TestVariedData:
    def test_data_sets_are_repeats_in_pairs(self, tmp_path: Path) -> None:
        sweep_data(tmp_path, "dense", DENSE)
        sweep_data(tmp_path, "focus_s", FOCUS)
        [table] = experiment_tables(collect([tmp_path]))
        ours, theirs = ([100 * each for each in scores] for scores in (FOCUS, DENSE))
        p = scipy_stats.ttest_rel(ours, theirs).pvalue
        found = [each for each in table.records if each["protocol"] == "paper"]
        assert [each["n"] for each in found] == [4, 4]
        assert found[1]["p_holm"] == pytest.approx(p)
        assert (found[1]["test"], found[1]["against"]) == ("paired", "dense")
        assert found[1]["difference"] == pytest.approx(4.5)
        assert any("data of its own" in note and "seed is 7" in note for note in table.notes)

    def test_seeds_on_the_same_data_keep_a_row(self, tmp_path: Path) -> None:
        sweep_data(tmp_path, "dense", DENSE)
        for seed in (7, 8, 9):  # that of seed 7 is in both
            options = {"data.seed": 2}
            scores = [DENSE[2] if seed == 7 else 0.1]
            leave(
                tmp_path, "mine", "synthetic", "dense", seed, scores,
                fingerprint="f2", options=options,
            )  # fmt: skip
        [table] = experiment_tables(collect([tmp_path]))
        found = [each for each in table.records if each["protocol"] == "paper"]
        assert [(each["data.seed"], each["n"]) for each in found] == [("2", 3), ("varied", 4)]
        assert [each["mean"] for each in found] == pytest.approx([92 / 3, 66])
        assert table.columns[2].title == "data.seed"  # not: seed, which is the network's

    def test_a_rectangle_of_seeds_stays_one(self, tmp_path: Path) -> None:
        for seed in (0, 1):
            sweep_data(tmp_path, "dense", DENSE, seed)
        [table] = experiment_tables(collect([tmp_path]))
        assert [row[2] for row in texts(table)] == ["0", "1", "2", "3"]

    def test_no_axis_of_a_figure(self, tmp_path: Path) -> None:
        sweep_data(tmp_path, "focus_s", FOCUS)
        collection = collect([tmp_path])
        assert not [chart for chart in sweep_charts(collection) if hasattr(chart, "rows")]
        assert not [chart for chart in foci_charts(collection) if hasattr(chart, "rows")]


class TestUnchanged:
    def test_variants_stand_beside_nothing_changed(self, tmp_path: Path) -> None:
        leave_rescue(tmp_path)
        table, measured = experiment_tables(collect([tmp_path]))
        lines = {row[2]: row[3] for row in texts(table)}
        assert "unchanged" not in lines["0.001"]
        assert "− unchanged: +11.00 [+8.52, +13.48] p=0.003" in lines["0.01"]
        record = next(each for each in table.records if each.get("against"))
        p = scipy_stats.ttest_1samp([10, 11, 12], 0).pvalue
        assert (record["test"], record["p_holm"]) == ("paired", pytest.approx(p))
        titles = [column.title for column in measured.columns]
        assert titles[3:] == [
            "runs", "foci inside at last (%)", "foci inside, change (points)", "foci stuck (%)",
        ]  # fmt: skip
        assert "Equal in all runs: foci inside at first (%) = 0, foci moved = 0.1" in str(
            measured.notes
        )
        assert [row[6] for row in texts(measured)] == ["75", "25"]

    def test_not_beside_a_dense_network_nor_on_other_data(self, tmp_path: Path) -> None:
        leave_rescue(tmp_path)
        for number in (0, 1, 2):
            options = {"data.seed": number}
            leave(tmp_path, "stuck", "synthetic", "focus_s", 0, [0.5], options=options)
            leave(tmp_path, "rescue", "synthetic", "dense", number, [0.5])
        tables = experiment_tables(collect([tmp_path]))
        others = {each.get("against") for table in tables for each in table.records}
        assert "unchanged" not in others

    def test_not_where_the_experiment_is_not_known(self, tmp_path: Path) -> None:
        for seed in range(2):
            for rate in (0.1, 0.2):
                options = {"optim.lr_mu": rate}
                leave(tmp_path, "mine", "dna", "focus_s", seed, [0.5], options=options)
        [table] = experiment_tables(collect([tmp_path]))
        assert not any(each.get("against") for each in table.records)


def test_shares_stay_between_none_and_all(tmp_path: Path) -> None:
    for seed, last in enumerate((1.0, 0.75, 1.0)):
        focus = {"hidden1": {"inside_first": 0.5, "inside_last": last, "widened": 0.0}}
        leave(tmp_path, "mine", "synthetic", "focus_s", seed, [0.5], focus=focus)
    table = experiment_tables(collect([tmp_path]))[1]
    found = {each["quantity"]: each for each in table.records}
    assert found["foci inside at last (%)"]["high"] == 100
    assert found["foci inside, change (points)"]["mean"] == pytest.approx(125 / 3)


@pytest.mark.parametrize("options", [{"size": "quick"}, {"data.limit_train": 100}, {}])
def test_the_authors_widths_stand_beside_whole_runs_only(
    tmp_path: Path, options: dict[str, object]
) -> None:
    size = str(options.pop("size", "paper"))
    for width in (64, 128):
        leave(
            tmp_path, "n_hidden", "mnist", "focus_s", 0, [0.5], size=size,
            options={"model.hidden": [width, width], **options},
        )  # fmt: skip
    [chart] = [each for each in sweep_charts(collect([tmp_path])) if hasattr(each, "rows")]
    whole = size == "paper" and not options
    assert all((row["author"] is not None) == whole for row in chart.rows)
    assert ("author's scripts" in chart.caption) == whole
    assert ("Runs on a part of the data: mnist" in chart.caption) == bool(options)
    [table] = experiment_tables(collect([tmp_path]))
    assert ("author" in {column.title for column in table.columns}) == whole


class TestLabels:
    CHANGES: ClassVar[list[dict[str, Any]]] = [
        {}, {"optim.lr_mu": 0.1}, {"optim.anneal_from": 4.0, "optim.anneal_epochs": 125},
        {"optim.mu_repulsion": 1.0},
    ]  # fmt: skip

    @pytest.mark.parametrize(("name", "plain"), [("rescue", "unchanged"), ("mine", "as most")])
    def test_many_options_share_a_column(self, tmp_path: Path, name: str, plain: str) -> None:
        for options in self.CHANGES:
            leave(tmp_path, name, "synthetic", "focus_s", 0, [0.5], options=options)
        [table] = experiment_tables(collect([tmp_path]))
        assert [column.title for column in table.columns] == ["data", "model", "setting", "paper",
                                                              "last"]  # fmt: skip
        found = {row[2] for row in texts(table)}
        assert found == {
            plain, "lr_mu=0.1", "anneal_epochs=125", "mu_repulsion=1.0",
        }  # fmt: skip
        assert {"optim.lr_mu", "optim.mu_repulsion"} <= table.records[0].keys()  # the file has all

    def test_no_two_settings_share_a_name(self, tmp_path: Path) -> None:
        for rate in (0.1, 0.2):
            for decay in (0.0, 0.5):
                options = {"optim.lr": rate, "optim.l2": decay}
                leave(tmp_path, "mine", "dna", "dense", 0, [0.5], options=options)
        assert len(set(labels(settings_of(collect([tmp_path]).runs)))) == 4


def test_the_terminal_loses_no_column(tmp_path: Path) -> None:
    focus = {"hidden1": {"inside_first": 0.1, "inside_last": 0.2, "moved": 0.3, "widened": 0.1}}
    for seed in range(2):
        for options in TestLabels.CHANGES:
            measured = {"stuck": {"hidden1": {"neurons": 3, "stuck": [1] * seed}}}
            leave(tmp_path, "rescue", "synthetic", "focus_s", seed, [0.5], options=options,
                  focus=focus, measured=measured, wall_seconds=12.0 + seed)  # fmt: skip
    table = experiment_tables(collect([tmp_path]))[1]
    console = Console(width=80, file=io.StringIO())
    console.print(*table_lines(table))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().replace("\n", "").replace(" ", "")
    assert shown.count("12.5") == len(TestLabels.CHANGES)
