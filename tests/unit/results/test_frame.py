"""The tidy table of runs: replicates, settings and the options that distinguish them."""

from pathlib import Path
from typing import Any

import pytest

from focusing.reports.names import option_words
from focusing.results.collect import collect
from focusing.results.frame import (
    data_versions,
    frame,
    replicate_key,
    settings,
    show_value,
    split_replicates,
    varying_options,
)
from tests.unit.reports.records import add_run


def test_frame_has_one_row_per_run(tmp_path: Path) -> None:
    focus = {"h1": {"moved": 0.25, "inside_first": 0.5, "inside_last": 0.75}, "h2": {"moved": 0.75}}
    add_run(tmp_path, "e", "dna", "dense", 0, [0.5], val=[0.5])
    add_run(tmp_path, "e", "dna", "focus_s", 1, [0.75], focus=focus, measured={"t": {"n": 3}})
    runs = collect([tmp_path]).runs
    table = frame(runs)
    assert list(table.index) == list(runs)
    scores = table["score"].groupby(table["run"]["model"]).mean()
    assert scores["best_test"].to_dict() == {"dense": 0.5, "focus_s": 0.75}
    assert table["score"]["holdout"].isna().tolist() == [False, True]
    assert table["option"]["data.name"].tolist() == ["dna", "dna"]
    assert table["measured"].iloc[1].to_dict() == {
        "seconds": 1.5,
        "foci inside at first (%)": 50,
        "foci inside at last (%)": 75,
        "foci inside, change (points)": 25,
        "foci moved": 0.5,
        "t.n": 3,
    }


def test_options_without_effect_are_no_settings(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"data.fold": 3, "data.split_seed": 7},
        {"paths.output_dir": "elsewhere", "trainer.devices": 2, "figures": False},
        {"callbacks.progress": None, "logger": {}},
    ]
    for seed, options in enumerate(changes):
        add_run(tmp_path, "e", "dna", "dense", seed, [0.5], options=options)
    add_run(tmp_path, "e", "dna", "dense", 9, [0.5], val=[0.5])  # a protocol is a column
    runs = collect([tmp_path]).runs
    flat = [
        {name: value for name, value in settings(run).items() if not name.startswith("callbacks")}
        for run in runs
    ]
    assert len(runs) == 5
    assert all(row == flat[0] for row in flat)
    assert len({replicate_key(run) for run in runs}) == 5
    assert split_replicates(runs) == [("", list(runs))]


def test_unusual_holdout_is_a_setting(tmp_path: Path) -> None:
    share = {"protocol.holdout": 0.3}
    add_run(tmp_path, "e", "dna", "dense", 0, [0.5], val=[0.5], options=share)
    [run] = collect([tmp_path]).runs
    assert settings(run)["protocol.holdout"] == 0.3


def test_varying_options_are_minimal() -> None:
    table = [
        {"data.name": "mnist", "optim.lr": 0.1, "optim.sigma_l2": 0.0},
        {"data.name": "lfw", "optim.lr": 0.01, "optim.sigma_l2": 0.0},
        {"data.name": "lfw", "optim.lr": 0.01, "optim.sigma_l2": 0.1},
    ]
    assert varying_options(table) == ["data.name", "optim.sigma_l2"]
    assert varying_options(table, known=["data.name"]) == ["optim.sigma_l2"]
    assert varying_options([{"a": 1}, {"a": 1}]) == varying_options([]) == []
    lists = [{"model.hidden": [8]}, {"model.hidden": [8, 8]}, {}]
    assert varying_options(lists) == ["model.hidden"]


def test_windows_are_named_by_what_moves_them() -> None:
    saliency = {"model.dynamic.aperture": 0.5, "model.dynamic.centre": "saliency"}
    transformer = {"model.dynamic.cells": 3, "model.dynamic.kind": "stn"}
    assert varying_options([{}, saliency]) == ["model.dynamic.centre"]
    names = varying_options([{}, saliency, transformer])
    assert names == ["model.dynamic.kind", "model.dynamic.centre"]
    words = [
        option_words(f"{name}={row[name]}")
        for name, row in zip(names, (transformer, saliency), strict=True)
    ]
    assert words == ["spatial transformer", "windows move"]


class TestDataVersions:
    def test_other_files_are_another_version(self, tmp_path: Path) -> None:
        later = {"fingerprint": "f1", "finished": "2026-02-01T00:00:00+00:00"}
        add_run(tmp_path, "e", "dna", "dense", 0, [0.5], fingerprint="f0")
        add_run(tmp_path, "e", "dna", "dense", 17, [0.5], **later)
        add_run(tmp_path, "e", "dna", "focus_s", 17, [0.5], **later)
        versions = data_versions(collect([tmp_path]).runs)
        pairs = sorted((run.fingerprint, version) for run, version in versions.items())
        assert pairs == [("f0", 0), ("f1", 1), ("f1", 1)]

    def test_other_folds_and_splits_are_the_same_version(self, tmp_path: Path) -> None:
        for seed in range(3):
            mark = {"fingerprint": f"f{seed}"}
            fold, split = {"data.fold": seed}, {"data.split_seed": None}
            add_run(tmp_path, "e", "dna", "dense", 0, [0.5], options=fold, **mark)
            add_run(tmp_path, "e", "lfw", "dense", seed, [0.5], options=split, **mark)
            add_run(tmp_path, "h", "boston", "dense", seed, [2.0], val=[2.0], **mark)
        assert set(data_versions(collect([tmp_path]).runs).values()) == {0}

    @pytest.mark.parametrize("val", [None, [0.5]])
    def test_contents_are_compared_if_seeds_split(self, tmp_path: Path, val: Any) -> None:
        for seed, content in enumerate(("c0", "c0", "c1", "c1", None)):
            add_run(
                tmp_path, "e", "lfw", "dense", seed, [0.5], val=val,
                options={"data.split_seed": None},
                fingerprint=f"f{seed}", content=content,
                finished=f"2026-02-0{seed + 1}T00:00:00+00:00",
            )  # fmt: skip
        versions = data_versions(collect([tmp_path]).runs)
        by_seed = sorted((run.seed, version) for run, version in versions.items())
        assert [version for _, version in by_seed] == [0, 0, 1, 1, 0]


def test_show_value() -> None:
    values = [None, True, 0.1, 1e-10, [8, 8], "spread"]
    assert [*map(show_value, values)] == ["null", "true", "0.1", "1e-10", "[8,8]", "spread"]
