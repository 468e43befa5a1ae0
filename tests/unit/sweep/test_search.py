from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

pytest.importorskip("optuna")

from focusing.errors import UserError
from focusing.sweep.jobs import Outcome
from focusing.sweep.search import (
    Search,
    SearchOptions,
    example_jobs,
    example_values,
    search_space,
    study_path,
)
from tests.unit.sweep.conftest import SEARCH_OPTIONS as OPTIONS

SWEPT = ["a=x,y", "b=range(1,8,3)", "c=tag(log,interval(0.1,10))", "d=int(interval(2,4))", "e=1"]


def space(*overrides: str, sampler: str = "tpe") -> tuple[dict[str, Any], list[str]]:
    return search_space(OverridesParser.create().parse_overrides(list(overrides)), sampler)


def search(path: Path, *, retry_failed: bool = False, **changes: Any) -> Search:
    options = SearchOptions(**{**OPTIONS, **changes})
    swept = space("a=x,y,z", "b=range(1,5,3)", "e=1", sampler=options.sampler)
    return Search(path / "study", *swept, options, retry_failed=retry_failed)


def done(score: float = 0.5) -> Outcome:
    return Outcome("done", score=score, metric="accuracy")


def test_search_space_from_overrides() -> None:
    swept, fixed = space(*SWEPT)
    assert fixed == ["e=1"]
    assert swept["a"].choices == ("x", "y")
    assert (swept["b"].low, swept["b"].high, swept["b"].step) == (1, 7, 3)
    assert (swept["c"].low, swept["c"].high, swept["c"].log) == (0.1, 10, True)
    assert (swept["d"].low, swept["d"].high, swept["d"].log) == (2, 4, False)
    jobs = example_jobs(example_values(swept), fixed)  # every choice occurs
    assert jobs[1].overrides == ("e=1", "a=y", "b=1", "c=0.1", "d=2")


@pytest.mark.parametrize(
    "wrong", [["e=1"], ["c=tag(log,interval(0,1))"], ["c=interval(2,1)"], ["b=range(3,3)"]]
)
def test_invalid_search_spaces_are_refused(wrong: list[str]) -> None:
    with pytest.raises(UserError):
        space(*wrong)
    with pytest.raises(UserError, match="needs values, not an interval"):
        space("c=interval(0,1)", sampler="grid")


def test_killed_search_continues(tmp_path: Path) -> None:
    whole = search(tmp_path / "whole", n_trials=6)
    expected = []
    for job in whole.jobs():
        expected.append(job.overrides)
        whole.tell(job, done())
    first = search(tmp_path / "killed", n_trials=4)
    jobs = first.jobs()
    first_job, lost = next(jobs), next(jobs)
    first.tell(first_job, done())
    second = search(tmp_path / "killed", n_trials=6)  # the same, and more trials
    assert second.finished == 1
    rest = []
    for job in second.jobs():
        rest.append(job)
        second.tell(job, done(0.9 if job == lost else 0.1))
    assert rest[0] == lost
    assert [first_job.overrides, *(job.overrides for job in rest)] == expected
    assert second.study.best_trial.number == lost.index
    assert "Best of 6 trials: 0.9" in second.describe_best()
    assert list(search(tmp_path / "killed", n_trials=6).jobs()) == []


def test_grid_search_and_retry_failed(tmp_path: Path) -> None:
    first = search(tmp_path, sampler="grid", n_trials=100)
    jobs = list(first.jobs())
    assert [job.overrides for job in jobs] == [
        ("e=1", f"a={a}", f"b={b}") for a in "xyz" for b in "14"
    ]
    for job in jobs:
        first.tell(job, done() if job.index else Outcome("failed", error="no", run_dir="x"))
    later = search(tmp_path, sampler="grid", n_trials=100)
    assert list(later.jobs()) == []
    [(job, outcome)] = later.failures  # an earlier call's are not forgotten
    assert (job.overrides, outcome.earlier) == (jobs[0].overrides, True)
    assert (outcome.error, outcome.run_dir) == ("no", "x")
    again = search(tmp_path, sampler="grid", n_trials=100, retry_failed=True)
    [retried] = again.jobs()
    assert retried.overrides == jobs[0].overrides
    again.tell(retried, done())
    assert list(search(tmp_path, sampler="grid", n_trials=100, retry_failed=True).jobs()) == []


def test_tell_stores_outcomes_in_the_study(tmp_path: Path) -> None:
    tpe = search(tmp_path, sampler="tpe", n_trials=3, prune=True)
    jobs = list(tpe.jobs())
    assert "number:2" in jobs[2].overrides[-1]
    tpe.tell(jobs[0], Outcome("pruned"))
    tpe.tell(jobs[1], Outcome("busy"))  # not over yet
    assert [trial.state.name for trial in tpe.study.trials] == ["PRUNED", "RUNNING", "RUNNING"]
    with pytest.raises(UserError, match=r"direction=minimize"):
        tpe.tell(jobs[2], Outcome("done", score=1.0, metric="mae"))


def test_study_path_identifies_the_search() -> None:
    config = {"name": "n", "seed": 0, "paths": {"output_dir": "out"}, "trainer": {}, "data": {}}
    swept, _ = space("a=x,y")
    options = SearchOptions(**OPTIONS)
    path = study_path(config, swept, options)
    assert path == study_path(config, swept, SearchOptions(**{**OPTIONS, "n_trials": 9}))
    others = [
        study_path({**config, "seed": 1}, swept, options),
        study_path(config, space("a=x,z")[0], options),
        study_path(config, swept, SearchOptions(**{**OPTIONS, "sampler": "tpe"})),
        study_path({**config, "data": {"n": 1}}, swept, options),
    ]
    assert len({path, *others}) == 5
    for wrong in ({"sampler": "x"}, {"direction": "up"}, {"n_trials": 0}):
        with pytest.raises(UserError, match=r"hydra\.sweeper\."):
            SearchOptions(**{**OPTIONS, **wrong})


@pytest.mark.parametrize("name", ["/elsewhere", "../elsewhere", "..", ""])
def test_study_stays_in_the_output_dir(tmp_path: Path, name: str) -> None:
    config = {"name": name, "seed": 0, "paths": {"output_dir": str(tmp_path)}}
    with pytest.raises(UserError, match="cannot be the name of a folder"):
        study_path(config, {}, SearchOptions(**OPTIONS))
