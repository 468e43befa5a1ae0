"""Settings of an experiment: their rows, names, replicates, measurements, and comparisons."""

from pathlib import Path
from typing import Any

import pytest
from scipy import stats as scipy_stats

from focusing.reports.figures.curve_figures import sweep_charts
from focusing.reports.figures.focus_figures import foci_charts
from focusing.reports.plans import composed, labels
from focusing.reports.settings import settings_of
from focusing.reports.tables.experiments import (
    chosen_tables,
    experiment_tables,
    learnt_tables,
    sweep_tables,
)
from focusing.reports.tables.files import all_tables
from focusing.results.collect import collect
from focusing.results.stats import resampled_interval, resampled_p
from tests.unit.reports.records import add_run, add_runs, charts_of, of_protocol, texts

DENSE, FOCUS = (0.50, 0.61, 0.72, 0.81), (0.55, 0.65, 0.77, 0.85)
CHANGES: list[dict[str, Any]] = [
    {},
    {"optim.lr_mu": 0.1},
    {"optim.anneal_from": 4.0, "optim.anneal_epochs": 125},
    {"optim.mu_repulsion": 1.0},
]


class TestRows:
    def test_a_row_per_setting(self, tmp_path: Path) -> None:
        for width in (64, 8):
            steps = [seed * width / 1000 for seed in range(3)]
            models = {"dense": [0.5 + step for step in steps], "focus_s": [0.6 + s for s in steps]}
            add_runs(tmp_path, "mine", "dna", models, options={"model.hidden": [width]})
        [table] = experiment_tables(collect([tmp_path]))
        titles = [column.title for column in table.columns]
        assert titles == ["data", "model", "hidden", "best_test", "last"]
        assert [row[:3] for row in texts(table)] == [
            ["DNA official", "Dense", "[8]"],
            ["", "Focus-s", "[8]"],
            ["", "Dense", "[64]"],
            ["", "Focus-s", "[64]"],
        ]
        p = scipy_stats.ttest_ind([0.5, 0.508, 0.516], [0.6, 0.608, 0.616], equal_var=False).pvalue
        holm = [r.get("p_holm") for r in table.records if r["model.hidden"] == "[8]"]
        assert holm == [None, None, pytest.approx(2 * p), pytest.approx(2 * p)]

    def test_options_of_one_model_alone(self, tmp_path: Path) -> None:
        add_runs(tmp_path, "mine", "dna", {"dense": [0.5, 0.51]})
        for sigma in (0.1, 0.2):
            scores = {"focus_s": [0.5 + sigma, 0.51 + sigma]}
            add_runs(tmp_path, "mine", "dna", scores, options={"model.sigma": sigma})
        rows = texts(experiment_tables(collect([tmp_path]))[0])
        assert [(row[2], "p=" in row[3]) for row in rows] == [
            ("0.1", True),
            ("0.2", True),
            ("–", False),
        ]

    @pytest.mark.parametrize("unread", ["optim.lr_mu", "optim.lr_dynamic"])
    def test_a_twin_may_differ_in_what_it_does_not_read(self, tmp_path: Path, unread: str) -> None:
        for model, rate in (("dense", 0.01), ("focus_s", 0.1), ("focus_s", 0.01)):
            options = {unread: rate, "data.split": "random"}
            add_runs(tmp_path, "mine", "dna", {model: [0.5, 0.6, 0.8]}, options=options)
        scores = {"focus_s": [0.7, 0.8, 0.9]}
        add_runs(tmp_path, "mine", "dna", scores, options={"optim.lr": 0.5})
        add_runs(tmp_path, "mine", "dna", scores, options={"data.split": "official"})
        records = of_protocol(experiment_tables(collect([tmp_path]))[0])
        against = [record.get("against") for record in records if record["model"] != "dense"]
        assert sorted(other or "" for other in against) == ["", "", "dense", "dense"]

    def test_a_sweep_ends_with_points_where_runs_are_few(self, tmp_path: Path) -> None:
        models = {"dense": [0.5, 0.51], "focus_s": [0.6, 0.62]}
        add_runs(tmp_path, "mine", "dna", models)
        [table] = sweep_tables(collect([tmp_path]).runs, "best_test")
        assert texts(table)[0][2:] == ["2", "50.50 ± 0.71 50.00, 51.00", ""]
        assert texts(table)[1][2:4] == ["2", "61.00 ± 1.41 60.00, 62.00"]
        assert texts(table)[1][4].startswith("− Dense: +10.50 p=")  # no interval
        assert sweep_tables(collect([tmp_path]).runs, "holdout") == []

    @pytest.mark.parametrize(("data", "name"), [("synthetic", "learning_to_focus"), ("dna", "dna")])
    def test_runs_of_old_names_are_compared(self, tmp_path: Path, data: str, name: str) -> None:
        for model in ("dense", "focus_s"):  # as the default name once was
            add_run(tmp_path, f"{data}_{model}", data, model, 0, [0.5])
        [table] = experiment_tables(collect([tmp_path]))
        assert {r["experiment"] for r in table.records} == {name}
        assert [r.get("against") for r in of_protocol(table)] == [None, "dense"]

    def test_every_network_has_its_own_twin(self, tmp_path: Path) -> None:
        models = {"dense": 0.5, "cnn_dense": 0.9, "cnn_focus": 0.9}
        scores = {model: [score, score + 0.01, score + 0.02] for model, score in models.items()}
        add_runs(tmp_path, "mine", "dna", scores)
        rows = texts(experiment_tables(collect([tmp_path]))[0])
        twin = "CNN+Dns: +0.00 [−2.27, +2.27] p=1.00"
        assert [row[2].endswith(twin) for row in rows] == [False, False, True]

    def test_tables_of_the_paper_are_not_repeated(self, tmp_path: Path) -> None:
        add_run(tmp_path, "table2_simple", "dna", "dense", 0, [0.5])
        add_run(tmp_path, "table1", "synthetic", "dense", 0, [0.5], options={"sweep.trial": 3})
        assert experiment_tables(collect([tmp_path])) == []

    def test_any_name_can_be_that_of_a_file(self, tmp_path: Path) -> None:
        for name in ("a b", "a-b", "my tests, first"):
            add_run(tmp_path, name, "dna", "dense", 0, [0.5])
        names = [table.name for table in all_tables(collect([tmp_path]))]
        assert len(names) == len({name.casefold() for name in names})
        assert {
            "experiment_a-b_full_text",
            "experiment_a-b_full_text_2",
            "experiment_my-tests-first_full_text",
        } <= set(names)


@pytest.mark.parametrize("options", [{"size": "quick"}, {"data.limit_train": 100}, {}])
def test_the_authors_widths_stand_beside_whole_runs_only(
    tmp_path: Path, options: dict[str, object]
) -> None:
    size = str(options.pop("size", "full"))
    for width in (64, 99):
        add_run(
            tmp_path, "n_hidden", "mnist", "focus_s", 0, [0.5], size=size,
            options={"model.hidden": [width, width], **options},
        )  # fmt: skip
    [table] = experiment_tables(collect([tmp_path]))
    whole = size == "full" and not options
    assert ("author" in {column.title for column in table.columns}) == whole
    if whole:
        assert [row[2:4] for row in texts(table)] == [["[64,64]", "97.94"], ["[99,99]", "–"]]
        assert table.records[0]["author"] == 97.944
    limited = "Runs on a part of the data: mnist: data.limit_train=100."
    assert (limited in table.notes) == bool(options)
    [chart] = charts_of(sweep_charts, collect([tmp_path]))
    assert all((row["author"] is not None) == whole for row in chart.rows[:1])
    assert ("author's scripts" in chart.caption) == whole
    assert ("Runs on a part of the data: mnist" in chart.caption) == bool(options)


class TestMeasurements:
    def test_they_have_a_table(self, tmp_path: Path) -> None:
        focus = {"hidden1": {"moved": 0.25}, "hidden2": {"moved": 0.75}}
        for model, step in (("dense", 0.5), ("focus_s", 0.75)):
            for seed in range(2):
                watch = {"step": step + seed / 100, "threads": 1, "curve": [1, 2]}
                measured = {"watch": watch, "note": "text", "ok": True}
                moved = {"focus": focus if model == "focus_s" else None}
                add_run(tmp_path, "mine", "dna", model, seed, [0.5], measured=measured, **moved)
        table = experiment_tables(collect([tmp_path]))[1]
        assert table.name == "experiment_mine_full_text_measured"
        titles = [column.title for column in table.columns]
        assert titles[2:] == ["runs", "foci moved", "watch step"]
        assert texts(table)[0][2:] == ["2", "–", "0.505"]
        assert texts(table)[1][2:] == ["2", "0.5", "0.755"]
        assert table.notes[2] == "Equal in all runs: watch.threads = 1, seconds = 1.5."
        steps = [r["mean"] for r in table.records if r["quantity"] == "watch.step"]
        assert steps == pytest.approx([0.505, 0.755])

    def test_of_many_some_are_in_the_file_only(self, tmp_path: Path) -> None:
        for model in ("dense", "focus_s"):
            many = {f"q{place}": place + len(model) for place in range(14)}
            add_run(tmp_path, "mine", "dna", model, 0, [0.5], measured=many)
        table = experiment_tables(collect([tmp_path]))[1]
        assert len(table.columns) == 3 + 8
        assert "6 more quantities are in experiment_mine_full_text_measured.csv." in table.notes
        assert len(table.records) == 2 * 15

    def test_shares_stay_between_none_and_all(self, tmp_path: Path) -> None:
        for seed, last in enumerate((1.0, 0.75, 1.0)):
            focus = {"hidden1": {"inside_first": 0.5, "inside_last": last, "widened": 0.0}}
            add_run(tmp_path, "mine", "synthetic", "focus_s", seed, [0.5], focus=focus)
        table = experiment_tables(collect([tmp_path]))[1]
        records = {record["quantity"]: record for record in table.records}
        assert records["foci inside at last (%)"]["high"] == 100
        assert records["foci inside, change (points)"]["mean"] == pytest.approx(125 / 3)


def test_random_splits_have_the_resampled_p_and_interval(tmp_path: Path) -> None:
    splits = {"data.split": "random", "data.split_seed": None}  # each seed splits anew
    add_runs(tmp_path, "mine", "lfw", {"dense": DENSE, "focus_2d": FOCUS}, options=splits)
    [table] = experiment_tables(collect([tmp_path]))
    [record] = [record for record in of_protocol(table) if record["model"] == "focus_2d"]
    gaps = [5.0, 4.0, 5.0, 4.0]
    interval = resampled_interval(gaps, 25 / 100)
    assert interval is not None
    assert record["p_resampled_holm"] == pytest.approx(resampled_p(gaps, 25 / 100))
    ends = record["difference_low"], record["difference_high"]
    assert ends == pytest.approx((interval.low, interval.high))
    assert any(note.startswith("Resampled") for note in table.notes)
    assert "resampled" in " ".join(map(str, texts(table)))


def sweep_data(folder: Path, model: str, scores: tuple[float, ...], seed: int = 7) -> None:
    for number, score in enumerate(scores):
        more: dict[str, Any] = {"fingerprint": f"f{number}", "options": {"data.seed": number}}
        add_run(folder, "mine", "synthetic", model, seed, [score], **more)


class TestVariedData:
    def test_data_sets_are_replicates_in_pairs(self, tmp_path: Path) -> None:
        sweep_data(tmp_path, "dense", DENSE)
        sweep_data(tmp_path, "focus_s", FOCUS)
        [table] = experiment_tables(collect([tmp_path]))
        ours, theirs = ([100 * score for score in scores] for scores in (FOCUS, DENSE))
        dense, focus = of_protocol(table)
        assert (dense["n"], focus["n"]) == (4, 4)
        assert focus["p_holm"] == pytest.approx(scipy_stats.ttest_rel(ours, theirs).pvalue)
        assert (focus["test"], focus["against"]) == ("paired", "dense")
        assert focus["difference"] == pytest.approx(4.5)
        assert any("data of its own" in note and "seed is 7" in note for note in table.notes)

    def test_seeds_on_the_same_data_keep_a_row(self, tmp_path: Path) -> None:
        sweep_data(tmp_path, "dense", DENSE)
        for seed in (7, 8, 9):  # that of seed 7 is in both
            more: dict[str, Any] = {"fingerprint": "f2", "options": {"data.seed": 2}}
            score = DENSE[2] if seed == 7 else 0.1
            add_run(tmp_path, "mine", "synthetic", "dense", seed, [score], **more)
        [table] = experiment_tables(collect([tmp_path]))
        records = of_protocol(table)
        assert [(r["data.seed"], r["n"]) for r in records] == [("2", 3), ("varied", 4)]
        assert [r["mean"] for r in records] == pytest.approx([92 / 3, 66])
        assert table.columns[2].title == "data.seed"  # not: seed, which is the network's

    def test_a_rectangle_of_seeds_stays_one(self, tmp_path: Path) -> None:
        for seed in (0, 1):
            sweep_data(tmp_path, "dense", DENSE, seed)
        [table] = experiment_tables(collect([tmp_path]))
        assert [row[2] for row in texts(table)] == ["0", "1", "2", "3"]

    def test_they_are_no_axis_of_a_figure(self, tmp_path: Path) -> None:
        sweep_data(tmp_path, "focus_s", FOCUS)
        collection = collect([tmp_path])
        assert charts_of(sweep_charts, collection) == charts_of(foci_charts, collection) == []


def add_rescue_runs(folder: Path) -> None:
    plain = composed("rescue", "full", "text", "synthetic", "focus_s")
    assert plain is not None
    for seed, score in enumerate((0.5, 0.6, 0.75)):
        for rate, better in ((plain["optim"]["lr_mu"], 0.0), (0.01, 0.1 + seed / 100)):
            options = {"optim.lr_mu": rate, "data": plain["data"], "model": plain["model"]}
            stuck = {"hidden1": {"neurons": 4, "stuck": [0] if better else [0, 1, 2]}}
            foci = {"hidden1": {"inside_first": 0.0, "inside_last": better * 2, "moved": 0.1}}
            add_run(
                folder, "rescue", "synthetic", "focus_s", seed, [score + better],
                options=options, measured={"stuck": stuck}, focus=foci,
            )  # fmt: skip


class TestUnchanged:
    def test_variants_stand_beside_nothing_changed(self, tmp_path: Path) -> None:
        add_rescue_runs(tmp_path)
        table, measured = experiment_tables(collect([tmp_path]))
        lines = {row[2]: row[3] for row in texts(table)}
        assert "unchanged" not in lines["0.001"]
        assert "− unchanged: +11.00 [+8.52, +13.48] p=0.003" in lines["0.01"]
        record = next(record for record in table.records if record.get("against"))
        p = scipy_stats.ttest_1samp([10, 11, 12], 0).pvalue
        assert (record["test"], record["p_holm"]) == ("paired", pytest.approx(p))
        assert [column.title for column in measured.columns][3:] == [
            "runs", "foci inside at last (%)", "foci inside, change (points)", "foci stuck (%)",
        ]  # fmt: skip
        constant = "Equal in all runs: foci inside at first (%) = 0, foci moved = 0.1"
        assert constant in str(measured.notes)
        assert [row[6] for row in texts(measured)] == ["75", "25"]

    def test_not_beside_a_dense_network_on_other_data_or_unknown(self, tmp_path: Path) -> None:
        add_rescue_runs(tmp_path)
        for number in (0, 1, 2):
            options = {"data.seed": number}
            add_run(tmp_path, "stuck", "synthetic", "focus_s", 0, [0.5], options=options)
            add_run(tmp_path, "rescue", "synthetic", "dense", number, [0.5])
            for rate in (0.1, 0.2):  # nobody knows what this experiment has
                rates = {"optim.lr_mu": rate}
                add_run(tmp_path, "mine", "dna", "focus_s", number, [0.5], options=rates)
        tables = experiment_tables(collect([tmp_path]))
        others = {record.get("against") for table in tables for record in table.records}
        assert "unchanged" not in others


class TestLabels:
    @pytest.mark.parametrize(("name", "plain"), [("rescue", "unchanged"), ("mine", "as most")])
    def test_many_options_share_a_column(self, tmp_path: Path, name: str, plain: str) -> None:
        for options in CHANGES:
            add_run(tmp_path, name, "synthetic", "focus_s", 0, [0.5], options=options)
        [table] = experiment_tables(collect([tmp_path]))
        titles = [column.title for column in table.columns]
        assert titles == ["data", "model", "setting", "best_test", "last"]
        names = {row[2] for row in texts(table)}
        assert names == {plain, "lr_mu=0.1", "anneal_epochs=125", "mu_repulsion=1.0"}
        assert {"optim.lr_mu", "optim.mu_repulsion"} <= table.records[0].keys()  # the file has all

    def test_no_two_settings_share_a_name(self, tmp_path: Path) -> None:
        for rate in (0.1, 0.2):
            for decay in (0.0, 0.5):
                options = {"optim.lr": rate, "optim.l2": decay}
                add_run(tmp_path, "mine", "dna", "dense", 0, [0.5], options=options)
        assert len(set(labels(settings_of(collect([tmp_path]).runs)))) == 4


def test_seeds_that_learnt(tmp_path: Path) -> None:
    for seed, (score, spread) in enumerate([(0.9, 0.2), (0.1, 0.0), (0.56, 0.1)]):
        add_run(
            tmp_path, "e", "clt", "dynamic_2d", seed, [score], val=[score], sizes={"classes": 10},
            measured={"windows": {"spread": spread}},
        )  # fmt: skip
    add_run(tmp_path, "e", "clt", "dense", 0, [0.2], val=[0.2], sizes={"classes": 10})
    [table] = learnt_tables(collect([tmp_path]))
    assert [column.title for column in table.columns][3:5] == ["learnt", "from"]
    [row] = texts(table)
    assert row[1:] == ["Dynamic-2d", "", "2 of 3", "55", "10.00", "52.00", "90.00", "0.100", "1"]
    [record] = table.records
    assert (record["learnt"], record["runs"], record["failed_seeds"]) == (2, 3, "1")
    assert record["threshold"] == pytest.approx(55)


def test_validation_chooses_and_the_test_data_does_not(tmp_path: Path) -> None:
    cache = tmp_path / "cache.json"
    for sigma, val, test in ((0.1, [0.2, 0.8], [0.1, 0.5]), (0.2, [0.7, 0.1], [0.9, 0.1])):
        for seed in (0, 1):
            options = {"model.sigma": sigma}
            add_run(tmp_path, "e", "clt", "fixed_2d", seed, test, val=val, options=options)
    add_run(tmp_path, "e", "clt", "focus_2d", 0, [0.6], val=[0.6])
    for _ in range(2):  # from records, then from the cache
        [table] = chosen_tables(collect([tmp_path], cache))
        [row] = texts(table)
        assert row[1:] == ["Fixed-2d", "sigma=0.1", "sigma=0.2", "2", "80.00", "50.00"]


def test_fixed_foci_are_no_rivals_of_trained_ones(tmp_path: Path) -> None:
    """As in experiment=attention, where both are the same model."""
    for train, val in ((True, 0.9), (False, 0.7)):
        for sigma in (0.1, 0.2):
            options = {"model.sigma": sigma, "model.train_mu": train, "model.train_sigma": train}
            add_run(tmp_path, "e", "clt", "m", 0, [0.5], val=[val + sigma / 10], options=options)
    [table] = chosen_tables(collect([tmp_path]))
    assert sorted(row[-2] for row in texts(table)) == ["72.00", "92.00"]


def test_nothing_to_choose(tmp_path: Path) -> None:
    add_run(tmp_path, "e", "clt", "fixed_2d", 0, [0.5], val=[0.5])
    for sigma in (0.1, 0.2):  # without a validation split
        add_run(tmp_path, "f", "clt", "fixed_2d", 0, [0.5], options={"model.sigma": sigma})
    for noise in ("image", "audio"):  # other data
        add_run(tmp_path, "g", "clt", "dense", 0, [0.5], val=[0.5], options={"data.noise": noise})
    assert chosen_tables(collect([tmp_path])) == []
    assert learnt_tables(collect([tmp_path])) == []
