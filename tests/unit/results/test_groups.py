"""Repeats are told from other settings."""

from pathlib import Path
from typing import Any

import pytest

from focusing.results.collect import collect
from focusing.results.frame import (
    data_versions,
    replicate_key,
    settings,
    show_value,
    varying_options,
)
from tests.unit.reports.records import leave


def test_what_changes_nothing_is_no_setting(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"data.fold": 3, "data.split_seed": 7},
        {"paths.output_dir": "elsewhere", "trainer.devices": 2, "figures": False},
        {"callbacks.progress": None, "logger": {}},
    ]
    for seed, options in enumerate(changes):
        leave(tmp_path, "e", "dna", "dense", seed, [0.5], options=options)
    leave(tmp_path, "e", "dna", "dense", 9, [0.5], val=[0.5])  # a protocol is a column
    runs = collect([tmp_path]).runs
    flat = [settings(run) for run in runs]
    flat = [{k: v for k, v in each.items() if not k.startswith("callbacks")} for each in flat]
    assert len(runs) == 5
    assert all(each == flat[0] for each in flat)
    assert len({replicate_key(run) for run in runs}) == 5


def test_an_unusual_share_of_validation_is_one(tmp_path: Path) -> None:
    share = {"protocol.holdout": 0.3}
    leave(tmp_path, "e", "dna", "dense", 0, [0.5], val=[0.5], options=share)
    [run] = collect([tmp_path]).runs
    assert settings(run)["protocol.holdout"] == 0.3


class TestTelling:
    def test_nothing_to_tell(self) -> None:
        assert varying_options([{"a": 1}, {"a": 1}]) == []

    def test_what_follows_from_others_is_left_out(self) -> None:
        table = [
            {"data.name": "mnist", "optim.lr": 0.1, "optim.sigma_l2": 0.0},
            {"data.name": "lfw", "optim.lr": 0.01, "optim.sigma_l2": 0.0},
            {"data.name": "lfw", "optim.lr": 0.01, "optim.sigma_l2": 0.1},
        ]
        assert varying_options(table) == ["data.name", "optim.sigma_l2"]
        assert varying_options(table, known=["data.name"]) == ["optim.sigma_l2"]
        assert varying_options(table, prefix="data.") == ["data.name"]

    def test_lists_and_missing_options(self) -> None:
        table = [{"model.hidden": [8]}, {"model.hidden": [8, 8]}, {}]
        assert varying_options(table) == ["model.hidden"]


class TestDataVersions:
    def test_other_files_are_another_version(self, tmp_path: Path) -> None:
        later = {"fingerprint": "f1", "finished": "2026-02-01T00:00:00+00:00"}
        leave(tmp_path, "e", "dna", "dense", 0, [0.5], fingerprint="f0")
        leave(tmp_path, "e", "dna", "dense", 17, [0.5], **later)
        leave(tmp_path, "e", "dna", "focus_s", 17, [0.5], **later)
        found = data_versions(collect([tmp_path]).runs)
        assert sorted((run.fingerprint, version) for run, version in found.items()) == [
            ("f0", 0),
            ("f1", 1),
            ("f1", 1),
        ]

    def test_another_fold_or_split_is_not(self, tmp_path: Path) -> None:
        for fold in range(3):
            options = {"data.fold": fold}
            leave(tmp_path, "e", "dna", "dense", 0, [0.5], fingerprint=f"f{fold}", options=options)
        for seed in range(3):
            options = {"data.split_seed": None}
            leave(
                tmp_path, "e", "lfw", "dense", seed, [0.5], fingerprint=f"{seed}", options=options
            )
            leave(tmp_path, "h", "boston", "dense", seed, [2.0], fingerprint=f"{seed}", val=[2.0])
        assert set(data_versions(collect([tmp_path]).runs).values()) == {0}

    @pytest.mark.parametrize("held", [None, [0.5]])
    def test_replaced_files_are_told_by_their_content_where_seeds_split(
        self, tmp_path: Path, held: list[float] | None
    ) -> None:
        contents = ("c0", "c0", "c1", "c1", None)
        for seed, content in enumerate(contents):
            leave(
                tmp_path, "e", "lfw", "dense", seed, [0.5], val=held,
                options={"data.split_seed": None},
                fingerprint=f"f{seed}", content=content,
                finished=f"2026-02-0{seed + 1}T00:00:00+00:00",
            )  # fmt: skip
        found = data_versions(collect([tmp_path]).runs)
        assert {run.seed: version for run, version in found.items()} == {
            0: 0, 1: 0, 2: 1, 3: 1, 4: 0,
        }  # fmt: skip


def test_values_as_they_are_typed() -> None:
    values = [None, True, 0.1, 1e-10, [8, 8], "spread"]
    assert [*map(show_value, values)] == ["null", "true", "0.1", "1e-10", "[8,8]", "spread"]
