"""Hashes and upgrades of configs: finished runs stay finished when options are added."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from focusing.compose import _note, check_config, compose_config, upgrade_overrides
from focusing.results.collect import Run, collect
from focusing.results.identity import config_hash, run_folder, upgrade_config
from focusing.results.store import finished_record

PUBLISHED = Path(__file__).parents[3] / "results"

CONFIG: dict[str, Any] = {
    "name": "x",
    "seed": 0,
    "resume": "auto",
    "force": False,
    "figures": True,
    "paths": {"output_dir": "outputs"},
    "logger": {"csv": {}},
    "data": {"_target_": "focusing.data.fashion", "augment": {"flip": False, "zoom": 0.1}},
    "model": {"_target_": "focusing.models.focused_mlp", "sigma": 0.1},
    "optim": {"lr": 0.1},
    "trainer": {"max_epochs": 3, "accelerator": "cpu", "devices": 1},
    "callbacks": {"clip": {"_target_": "a"}, "progress": {"_target_": "b"}},
}


class TestIdentity:
    @pytest.mark.parametrize(
        "change",
        [
            {"seed": 1},
            {"force": True},
            {"name": "y"},
            {"logger": {"wandb": {}}},
            {"paths": {"output_dir": "elsewhere"}},
            {"trainer": {"max_epochs": 3, "accelerator": "gpu", "devices": [1]}},
            {"callbacks": {"clip": {"_target_": "a"}}},
            # Options at their defaults, as after adding them to the schema.
            {"model": {**CONFIG["model"], "focus": "gaussian", "mu_range": [0.0, 1.0]}},
            {"optim": {"lr": 0.1, "drop_last": "auto"}},
            {"data": {**CONFIG["data"], "augment": {"zoom": 0.1, "shear": 0.0}, "fold": 0}},
        ],
    )
    def test_hash_ignores_options_without_effect(self, change: Any) -> None:
        assert config_hash({**CONFIG, **change}) == config_hash(CONFIG)

    @pytest.mark.parametrize(
        "change",
        [
            {"model": {**CONFIG["model"], "sigma": 0.2}},
            {"model": {**CONFIG["model"], "focus": "laplace"}},
            {"optim": {"lr": 0.1, "drop_last": False}},
            {"data": {**CONFIG["data"], "augment": {"flip": False, "zoom": 0.2}}},
            {"trainer": {**CONFIG["trainer"], "max_epochs": 4}},
            {"callbacks": {}},
        ],
    )
    def test_hash_covers_options_with_effect(self, change: Any) -> None:
        assert config_hash({**CONFIG, **change}) != config_hash(CONFIG)

    def test_hash_ignores_later_options_of_windows_at_their_defaults(self) -> None:
        def with_windows(**windows: Any) -> dict[str, Any]:
            return {**CONFIG, "model": {**CONFIG["model"], "dynamic": windows}}

        old, new = with_windows(kind="stn"), with_windows(kind="stn", jitter=0.0)
        assert config_hash(old) == config_hash(new)
        assert config_hash(old) != config_hash(with_windows(kind="stn", jitter=0.01))
        assert upgrade_config(old) == upgrade_config(new)
        assert config_hash(with_windows(jitter=0.0)) != config_hash(with_windows())  # never missing

    def test_hash_ignores_the_order_of_keys(self) -> None:
        assert config_hash(dict(reversed(CONFIG.items()))) == config_hash(CONFIG)

    def test_run_folder(self) -> None:
        folder = run_folder(CONFIG)
        assert folder.parts[-4:] == ("outputs", "x", config_hash(CONFIG), "seed=0")
        assert folder.is_absolute()


class TestUpgrade:
    model = {"_target_": "focusing.models.dense_mlp", "batch_norm": True}

    @pytest.mark.parametrize(
        ("samples", "batch_norm", "expected"),
        [(1250, True, False), (1250, False, "auto"), (1249, True, "auto"), (1264, True, "auto")],
    )
    def test_drop_last_of_older_runs(
        self, samples: int, batch_norm: bool, expected: bool | str
    ) -> None:
        config = {"model": {**self.model, "batch_norm": batch_norm}, "optim": {"batch_size": 32}}
        assert upgrade_config(config, samples)["optim"]["drop_last"] == expected

    def test_missing_options_get_their_defaults(self) -> None:
        upgraded = upgrade_config({"model": self.model, "optim": {}, "trainer": {"max_epochs": 3}})
        assert upgraded["optim"]["drop_last"] == "auto"
        defaults = {"limit_batches": None, "compile": False}
        assert upgraded["trainer"] == {"max_epochs": 3, **defaults}

    def test_unknown_targets_stay_as_they_are(self) -> None:
        config = {"model": {"_target_": "mine.Net", "width": 3}}
        assert upgrade_config(config) == config
        assert config_hash(config) != config_hash({"model": {"_target_": "mine.Net"}})


class TestLegacyNames:
    """In version 0.1, size, variant and protocol were all called "paper"."""

    @pytest.mark.parametrize("overrides", [["size=paper"], ["variant=paper", "protocol=paper"]])
    def test_legacy_overrides_work_with_a_note(
        self, overrides: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        _note.cache_clear()
        current = upgrade_overrides([*overrides, "name=paper", "optim=paper"])
        assert not any("paper" in override for override in current[:-2])
        assert current[-2:] == ["name=paper", "optim=paper"]
        assert capsys.readouterr().err.count("is now called") == len(overrides)
        assert upgrade_overrides(["size=quick,paper"]) == ["size=quick,full"]
        assert compose_config(*overrides) == compose_config()

    def test_legacy_records_are_the_same_run(self, tmp_path: Path) -> None:
        config = {**composed(), "paths": {"output_dir": str(tmp_path)}}
        assert config_hash(config) == "765333d7a6"  # as in version 0.1
        old = {"size": "paper", "variant": "paper", "protocol": {"name": "paper", "holdout": 0.0}}
        scores = {"paper": {"value": 0.5, "epoch": 0}, "holdout": None}
        record = {"schema": 1, "experiment": config["name"], "config": {**config, **old}}
        record |= {"config_hash": "x", "seed": 0, "status": "done", "scores": scores}
        folder = run_folder(config)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps({**record, "metric": "accuracy"}))
        done = finished_record(folder)
        assert done is not None
        assert done["scores"]["best_test"]["value"] == 0.5
        assert done["config"] == config
        [run] = collect([tmp_path]).runs
        assert (run.size, run.variant, run.protocol) == ("full", "text", "best_test")
        assert run.config_hash == config_hash(config)


@cache
def composed(choice: str = "model=focus_s") -> dict[str, Any]:
    return check_config(compose_config(choice))


def composed_anew(run: Run) -> dict[str, Any]:
    """Compose today's conf/ with the values of a record, all of whose options must exist."""
    groups = {name: composed()[name] for name in ("optim", "protocol", "trainer")}
    groups["data"] = composed(f"data={run.data}")["data"]
    groups["model"] = composed(f"model={run.model}")["model"]
    config = {"size": run.size, "variant": run.variant, "callbacks": run.config["callbacks"]}
    for name, options in groups.items():
        assert run.config[name].keys() <= options.keys(), (name, run.path)
        config[name] = {**options, **run.config[name]}
    return config


def test_published_records_are_valid_and_keep_their_hash() -> None:
    if not PUBLISHED.is_dir():
        pytest.skip("results/ is not here: it is not part of the package.")
    collection = collect([PUBLISHED])
    assert collection.unreadable == ()
    assert len(collection.runs) >= 3600
    parts = ("optim", "protocol", "trainer", "data", "model", "callbacks")
    distinct = {  # runs of other seeds have the same config
        (run.config_hash, run.size, run.variant, str([run.config[part] for part in parts])): run
        for run in collection.runs
    }
    for run in distinct.values():
        assert config_hash(composed_anew(run)) == run.config_hash, run.path
    # Since version 2 of the hash the folder of a run is named by the hash of its day.
    recent = [run for run in collection.runs if run.finished > "2026-11-17"]
    assert len(recent) >= 2000
    assert [run.path for run in recent if run.path.parent.name != run.config_hash] == []
