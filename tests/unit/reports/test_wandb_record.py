"""Which W&B run a record becomes."""

import shutil
from operator import itemgetter
from pathlib import Path

import pytest

from focusing.reports.wandb_items import rows_of
from focusing.reports.wandb_push import to_send
from tests.command_line import push
from tests.unit.reports.records import add_run


def test_copies_of_a_record_are_one_run_and_others_are_not(tmp_path: Path) -> None:
    first = add_run(tmp_path / "a", "mine", "mnist", "focus_s", 0, [0.5])
    add_run(tmp_path / "a", "mine", "mnist", "focus_s", 1, [0.5])
    add_run(tmp_path / "a", "other", "mnist", "focus_s", 0, [0.5])
    add_run(tmp_path / "b", "mine", "mnist", "focus_s", 0, [0.5], fingerprint="f1")
    ids = {item.run["id"] for item in to_send([tmp_path], trials=False)}
    assert len(ids) == 4
    shutil.copytree(first, tmp_path / "c" / "mine" / first.parent.name / "seed=0")
    (copy,) = to_send([tmp_path / "c"], trials=False)
    assert copy.run["id"] in ids


def test_a_record_that_changes_is_sent_again(tmp_path: Path) -> None:
    add_run(tmp_path, "mine", "mnist", "focus_s", 0, [0.5])
    (before,) = to_send([tmp_path], trials=False)
    add_run(tmp_path, "mine", "mnist", "focus_s", 0, [0.5], measured={"own": {"epochs": 1}})
    (after,) = to_send([tmp_path], trials=False)
    assert after.run == before.run
    assert after.digest != before.digest


def test_one_figure_is_one(tmp_path: Path) -> None:
    folder = add_run(tmp_path, "mine", "mnist", "focus_s", 0, [0.5])
    (folder / "figures").mkdir()
    for name, said in (("a", "1 figure"), ("b", "2 figures")):
        (folder / "figures" / f"{name}.png").touch()
        (item,) = to_send([tmp_path], trials=False)
        assert item.content == f"scores, history, {said}"


def test_it_goes_where_it_would_have_been_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = {"wandb": {"project": "p", "entity": "team", "tags": ["best"], "job_type": "x"}}
    add_run(tmp_path, "mine", "mnist", "focus_s", 0, [0.5], options={"logger": logger})
    add_run(tmp_path, "mine", "mnist", "focus_s", 1, [0.5])
    logged, plain = to_send([tmp_path], trials=False)
    where = itemgetter("entity", "project", "job_type")
    assert where(logged.run) == ("team", "p", "x")
    assert logged.run["tags"][-1] == "best"
    assert where(plain.run) == (None, "focusing", "train")
    push([str(tmp_path), "--dry-run"])
    said = capsys.readouterr().out.splitlines()
    assert said[::2] == ["Would send 1 run to team/p:", "Would send 1 run to focusing:"]
    push([str(tmp_path), "--dry-run", "--entity", "me", "--project", "q"])
    assert capsys.readouterr().out.startswith("Would send 2 runs to me/q:\n")


def test_trials_become_runs_if_asked(tmp_path: Path) -> None:
    options = {"sweep.trial": 0, "data.noise": 0, "data.informative": 20}
    for model in ("dense", "focus_s"):
        add_run(tmp_path, "table1", "synthetic", model, 0, [0.5], options=options)
    (table,) = to_send([tmp_path], trials=False)
    assert table.run["job_type"] == "trials"
    assert table.content == "a table of 1 trials, dense, focus_s"
    kinds = [item.run["job_type"] for item in to_send([tmp_path], trials=True)]
    assert kinds == ["trials", "train", "train"]


def test_history_has_a_row_for_each_epoch() -> None:
    series = {"train/loss": [3.0, 2.0], "test/acc": [0.5, None], "val/acc": [0.1]}
    assert list(rows_of({"series": series}, {})) == [
        {"epoch": 0, "train/loss": 3.0, "test/acc": 0.5, "val/acc": 0.1},
        {"epoch": 1, "train/loss": 2.0},
    ]
    assert list(rows_of({"series": {}}, {})) == []
