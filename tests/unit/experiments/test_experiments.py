"""Experiments, and the jobs they expand into."""

import itertools
from collections import Counter
from pathlib import Path

import pytest

from focusing.errors import UserError
from focusing.experiments.listing import configs, experiments, find, jobs

RUNS = {
    "learning_to_focus": 1,
    "sides": 1,
    "stuck": 1,
    "table2_simple": 6 * 4 * 5,
    "table2_cnn": 6 * 2 * 5,
    "table3_transfer": 2 * 2 * 5,
    "table4_other": 2 * 10 + 2 * 2 * 5 + 2 * 5,
    "n_hidden": 2 * 2 * 6 * 5,
    "sparsity": 2,
    "sigma_reg": 4 * 2 * 6 * 5,
    "explain": 3,
    "timing": 3 * 2,
    "redundancy": 2,
    "topology": 5 * 4 * 5,
    "focus_functions": 2 * 5 * 5,
    "rescue": (1 + 2 + 2 + 3) * 5,
}


def test_every_experiment_says_where_it_is_in_the_paper() -> None:
    found = experiments()
    assert set(found) == {*RUNS, "table1"}
    for each in found.values():
        first = each.paper.split()[0]
        assert first in ("Table", "Figure", "Section", "Beyond"), each
        assert len(each.about) > 10
    assert found["table3_transfer"].paper == "Table 3"
    assert found["topology"].paper == "Beyond the paper"


def test_the_docs_list_them_with_their_runs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    runs = {name.strip(" `"): int(row[2]) for row in rows for name in row[0].split(",")}
    assert runs == {**RUNS, "table1": 1500}


def test_a_wrong_name_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"experiment=tabel2_cnn .* did you mean table2_cnn\?"):
        find("tabel2_cnn")


@pytest.mark.parametrize("name", RUNS)
def test_number_of_runs(name: str) -> None:
    runs = jobs([f"experiment={name}"])
    assert len(runs) == len(set(runs)) == RUNS[name]


def test_seeds_are_the_papers() -> None:
    seeds = {each for run in jobs(["experiment=table2_cnn"]) for each in run if "seed" in each}
    assert seeds == {f"seed={17 * repeat}" for repeat in range(5)}


def test_the_command_line_wins_over_the_sweep_of_an_experiment() -> None:
    runs = jobs(["experiment=table2_simple", "model=dense", "seed=3,4", "optim.lr=1"])
    assert len(runs) == 6 * 2
    assert all({"model=dense", "optim.lr=1"} <= set(run) for run in runs)


class TestParts:
    """Of table4_other: Boston in folds; Reuters and DNA; IMDB with networks of its own."""

    def test_each_part_is_a_sweep_of_its_own(self) -> None:
        runs = [" ".join(run) for run in jobs(["experiment=table4_other"])]
        assert {"fasttext" in run for run in runs if "data=imdb" in run} == {True}
        assert {"data.fold" in run for run in runs if "data=boston" in run} == {True}
        assert sum("data.fold" in run for run in runs) == 20

    def test_a_choice_keeps_the_parts_that_have_it(self) -> None:
        runs = jobs(["experiment=table4_other", "data=imdb,dna", "seed=1"])
        named = [" ".join(run) for run in runs]
        assert len(runs) == 4
        assert sum("data=imdb" in each and "model=fasttext_" in each for each in named) == 2
        assert sum("data=dna" in each and "data=dna,imdb" not in each for each in named) == 2

    def test_a_choice_that_no_part_has_is_refused(self) -> None:
        with pytest.raises(UserError, match="No part of this experiment has .*data=mnist"):
            jobs(["experiment=table4_other", "data=mnist"])

    def test_a_size_can_leave_values_out(self) -> None:
        runs = [" ".join(run) for run in jobs(["experiment=table4_other", "size=quick"])]
        assert sum("data=boston" in run for run in runs) == 2 * 3
        assert sum("data.ngrams=1" in run for run in runs) == 2 * 2


def test_quick_is_smaller() -> None:
    sizes = {name: len(jobs([f"experiment={name}", "size=quick"])) for name in RUNS}
    assert all(sizes[name] <= RUNS[name] for name in RUNS)
    assert max(sizes.values()) == sizes["sigma_reg"] == 4 * 2 * 6 * 3  # runs of seconds
    assert sizes["n_hidden"] == 2 * 2 * 6 * 3
    assert sizes["focus_functions"] == 5 * 3


def test_the_penalty_on_sigma_has_all_panels_and_strengths_at_quick() -> None:
    runs = [
        dict(each.split("=") for each in run)
        for run in jobs(["experiment=sigma_reg", "size=quick"])
    ]
    panels = Counter((run["data"], run["model"]) for run in runs)
    wanted = itertools.product(("mnist", "clt", "cifar10", "fashion"), ("focus_s", "cnn_focus"))
    assert panels == dict.fromkeys(wanted, 6 * 3)
    assert 1e-5 in {float(run["optim.sigma_l2"]) for run in runs}


def test_short_has_two_seeds() -> None:
    runs = jobs(["experiment=table2_cnn", "data=mnist,fashion,cifar10", "size=short"])
    assert len(runs) == 3 * 2 * 2
    sizes = {name: len(jobs([f"experiment={name}", "size=short"])) for name in RUNS}
    assert all(sizes[name] <= RUNS[name] for name in RUNS)


def test_runs_that_cost_the_same_are_counted_together() -> None:
    runs = jobs(["experiment=rescue", "size=quick"])
    found = configs(runs)
    assert sum(count for _, count in found) == len(runs) == 16
    assert {config["name"] for config, _ in found} == {"rescue"}
    assert len(found) == 6  # seeds and rates of mu make no difference
