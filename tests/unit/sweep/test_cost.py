"""What runs will cost."""

import json
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from focusing.compose import check, config_dir, prepare_hydra
from focusing.sweep import cost
from focusing.sweep.cost import EPOCH, START, Speed, estimate, run_seconds, samples, speed_of
from focusing.sweep.listing import duration
from focusing.sweep.table1.cost import stacked_seconds
from tests.command_line import list_experiments


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cost, "_cache", lambda: tmp_path / "cache" / "speeds.json")
    return tmp_path / "cache" / "speeds.json"


def config(*overrides: str) -> dict[str, Any]:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return check(compose("train", list(overrides)))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["data=synthetic"], (2000, 857)),
        (["data=mnist"], (60_000, 10_000)),
        (["data=mnist", "data.limit_train=500", "data.limit_test=20000"], (500, 10_000)),
        (["data=lfw"], (2267, 756)),
        (["data=boston"], (456, 50)),
        (["data=dna"], (2548, 638)),
        (["data=dna", "data.split=official"], (2000, 1186)),
    ],
)
def test_samples(overrides: list[str], expected: tuple[int, int]) -> None:
    assert samples(config(*overrides)["data"]) == expected


def test_seconds_of_a_run_by_hand() -> None:
    given = config("data=mnist", "trainer.max_epochs=3")
    epoch = 118 * 0.1 + 10_000 * 1e-3  # 60 000 / 512 = 117.2
    assert run_seconds(given, Speed(0.1, 1e-3)) == pytest.approx(START + 3 * (EPOCH + epoch))
    few = {**given, "trainer": {**given["trainer"], "limit_batches": 2}}
    assert run_seconds(few, Speed(0.1, 0.0)) == pytest.approx(START + 3 * (EPOCH + 0.2))
    held = {**given, "protocol": {"name": "holdout", "holdout": 0.1}}
    epoch = 106 * 0.1 + 16_000 * 1e-3
    assert run_seconds(held, Speed(0.1, 1e-3)) == pytest.approx(START + 3 * (EPOCH + epoch))


def test_a_speed_is_measured_once_and_kept(cache: Path) -> None:
    given = config("data=dna")
    speed = speed_of(given)
    assert 0 < speed.step < 5
    assert 0 < speed.sample < speed.step
    [key] = json.loads(cache.read_text())
    cache.write_text(json.dumps({key: {"step": 7.0, "sample": 0.0}}))
    assert speed_of(given) == Speed(7.0, 0.0)
    assert speed_of({**given, "seed": 9}) == Speed(7.0, 0.0)
    assert speed_of(given, fresh=True).step < 7
    cache.write_text("{")  # cut short
    assert speed_of(given).step < 7


def test_a_larger_network_takes_longer() -> None:
    small = config("data=mnist", "model.hidden=[8,8]", "trainer.max_epochs=1")
    large = config("data=mnist", "trainer.max_epochs=1")
    assert estimate([large]) > 2 * estimate([small]) - START


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (119, "119 s"),
        (121, "2 min"),
        (7300, "2.0 h"),
        (90_000, "25 h"),
        (3e6, "35 d"),
    ],
)
def test_durations_are_said_as_people_do(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_list_has_place_runs_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    list_experiments(["learning_to_focus", "rescue", "size=smoke"])
    out = capsys.readouterr().out
    [line] = [each for each in out.splitlines() if each.startswith("rescue")]
    assert "Beyond the paper" in line
    assert " 4 " in line
    assert line.rstrip().endswith(" s")
    assert "Figure focus_change" in out
    assert "table2_simple" not in out


def test_stacked_trials_cost_more_the_more_there_are() -> None:
    overrides = ["experiment=table1", "size=smoke"]
    few, many = (config(*overrides, f"sweep.trials={count}") for count in (4, 40))
    assert 0 < stacked_seconds(few) < stacked_seconds(many)
