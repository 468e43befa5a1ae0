"""The list of experiments: their runs and their cost."""

import json
from pathlib import Path

import pytest

from focusing.errors import UserError
from focusing.experiments import listing
from focusing.experiments.listing import (
    EPOCH_SECONDS,
    RUN_SECONDS,
    cached_speed,
    distinct_configs,
    duration,
    expand_command,
    experiments,
    find_experiment,
    run_seconds,
    sample_counts,
    stacked_seconds,
)
from tests.command_line import list_experiments
from tests.unit.experiments.composed import checked


def documented_runs() -> dict[str, int]:
    """Return the number of runs of each experiment from the docs."""
    text = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {name.strip(" `"): int(row[2]) for row in rows for name in row[0].split(",")}


RUNS = documented_runs()


def test_experiments_name_their_place_in_the_paper() -> None:
    known = experiments()
    assert set(known) == set(RUNS)
    for experiment in known.values():
        first = experiment.paper.split()[0]
        assert first in ("Table", "Figure", "Section", "Beyond"), experiment
        assert len(experiment.about) > 10
    assert known["table3_transfer"].paper == "Table 3"
    assert known["topology"].paper == "Beyond the paper"


def test_wrong_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match=r"experiment=tabel2_cnn .* did you mean table2_cnn\?"):
        find_experiment("tabel2_cnn")


SMALLER = {
    "n_hidden size=quick": 2 * 2 * 6 * 3,
    "focus_functions size=quick": (5 + 2) * 3,
    "sigma_reg size=quick": 4 * 2 * 6 * 3,
    "table2_simple size=quick": 6 * 4 * 2,
    "table3_transfer size=quick": 2 * 2,
    "table2_cnn size=short": 6 * 2 * 2,
    "topology size=short": 6 * (3 + 2 + 2) * 3,
    "dynamic size=quick": 4 * (7 + 2 + 1 + 3 + 2),
    "dynamic_seeds size=short": 10,
}


@pytest.mark.parametrize(("command", "count"), (RUNS | SMALLER).items())
def test_number_of_runs(command: str, count: int) -> None:
    runs = expand_command(f"experiment={command}".split())
    assert len(runs) == len(set(runs)) == count
    if command == "table2_cnn":  # the paper's seeds
        seeds = {word for run in runs for word in run if "seed" in word}
        assert seeds == {f"seed={17 * repeat}" for repeat in range(5)}


def test_choices_of_groups_select_parts() -> None:

    def commands(*words: str) -> list[str]:
        return [" ".join(run) for run in expand_command(["experiment=table4_other", *words])]

    runs = commands()
    assert {"fasttext" in run for run in runs if "data=imdb" in run} == {True}
    assert {"data.fold" in run for run in runs if "data=boston" in run} == {True}
    assert sum("data.fold" in run for run in runs) == 20
    some = commands("data=imdb,dna", "seed=1")
    assert len(some) == 4
    assert sum("data=imdb" in run and "model=fasttext_" in run for run in some) == 2
    assert sum("data=dna" in run and "data=dna,imdb" not in run for run in some) == 2
    with pytest.raises(UserError, match="No part of this experiment has .*data=mnist"):
        commands("data=mnist")
    quick = commands("size=quick")  # it has fewer values
    assert sum("data=boston" in run for run in quick) == 2 * 3
    assert sum("data.ngrams=1" in run for run in quick) == 2 * 2


def test_runs_that_cost_the_same_are_counted_together() -> None:
    runs = expand_command(["experiment=rescue", "size=quick"])
    configs = distinct_configs(runs)
    assert sum(count for _, count in configs) == len(runs) == 16
    assert {config["name"] for config, _ in configs} == {"rescue"}
    assert len(configs) == 6  # seeds and lr_mu do not count


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["data=synthetic"], (2000, 857)),
        (["data=mnist", "data.limit_train=500", "data.limit_test=20000"], (500, 10_000)),
        (["data=lfw"], (2267, 756)),
        (["data=boston"], (456, 50)),
        (["data=dna"], (2548, 638)),
        (["data=dna", "data.split=official"], (2000, 1186)),
    ],
)
def test_sample_counts(overrides: list[str], expected: tuple[int, int]) -> None:
    assert sample_counts(checked(*overrides)["data"]) == expected


def test_run_seconds_by_hand() -> None:
    config = checked("data=mnist", "trainer.max_epochs=3")

    def seconds(epoch: float) -> object:
        return pytest.approx(RUN_SECONDS + 3 * (EPOCH_SECONDS + epoch))

    # 60 000 / 512 = 117.2
    assert run_seconds(config, 0.1, 1e-3) == seconds(118 * 0.1 + 10_000 * 1e-3)
    few = {**config, "trainer": {**config["trainer"], "limit_batches": 2}}
    assert run_seconds(few, 0.1, 0.0) == seconds(0.2)
    held = {**config, "protocol": {"name": "holdout", "holdout": 0.1}}
    assert run_seconds(held, 0.1, 1e-3) == seconds(106 * 0.1 + 16_000 * 1e-3)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(listing, "cache_path", lambda: tmp_path / "cache" / "speeds.json")
    return tmp_path / "cache" / "speeds.json"


def test_speed_is_measured_once(cache: Path) -> None:
    config = checked("data=dna")
    assert all(seconds > 0 for seconds in cached_speed(config))
    [key] = json.loads(cache.read_text())
    cache.write_text(json.dumps({key: [7.0, 0.0]}))
    assert cached_speed(config) == (7.0, 0.0)
    assert cached_speed({**config, "seed": 9}) == (7.0, 0.0)
    cache.write_text("{")  # truncated
    assert cached_speed(config) != (7.0, 0.0)


def test_stacked_seconds_scale_with_the_trials(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = checked("experiment=table1", "size=smoke", "sweep.trials=3")
    assert stacked_seconds(config) > 0  # trains some groups
    assert json.loads(cache.read_text())
    monkeypatch.setattr(listing, "cached", lambda *_: 2.0)
    few, many = (
        stacked_seconds({**config, "sweep": {**config["sweep"], "trials": count}})
        for count in (4, 40)
    )
    assert 0 < few < many


def test_list_experiments(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listing, "cached_speed", lambda _: (0.01, 0.0))
    cache.parent.mkdir()
    cache.touch()
    list_experiments(["learning_to_focus", "rescue", "size=smoke", "--fresh"])
    assert not cache.exists()
    out = capsys.readouterr().out
    [line] = [line for line in out.splitlines() if line.startswith("rescue")]
    assert "Beyond the paper" in line
    assert " 4 " in line
    assert line.rstrip().endswith(" s")
    assert "Figure focus_change" in out
    assert "table2_simple" not in out


def test_duration() -> None:
    lengths = (0.4, 119, 121, 7300, 90_000, 3e6)
    assert [duration(seconds) for seconds in lengths] == [
        *("0 s", "119 s", "2 min"),
        *("2.0 h", "25 h", "35 d"),
    ]
