"""The wheel contains the configs, and its command writes a complete run in any folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

from tests.integration.commands import ROOT, environment, record, run_dirs

pytestmark = pytest.mark.slow


def test_wheel_trains_outside_the_checkout(tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        names = archive.namelist()
    shipped = {name.removeprefix("focusing/conf/") for name in names if "/conf/" in name}
    configs = (ROOT / "conf").rglob("*.yaml")
    assert shipped == {path.relative_to(ROOT / "conf").as_posix() for path in configs}
    data = [path for path in (ROOT / "src").rglob("*.*") if path.suffix in (".yaml", ".j2", ".css")]
    assert data
    assert {path.relative_to(ROOT / "src").as_posix() for path in data} <= {*names}
    assert any(name.startswith("hydra_plugins/focusing_sweeps/") for name in names)
    assert "hydra_plugins/__init__.py" not in names  # a namespace package
    [entry] = site.glob("*.dist-info/entry_points.txt")
    assert "focusing = focusing.cli:main" in entry.read_text()

    folder = tmp_path / "anywhere"
    folder.mkdir()
    start = [sys.executable, "-c", "from focusing.cli import main; main()"]
    done = subprocess.run(
        [*start, "train", "trainer.max_epochs=4"],
        cwd=folder,
        env=environment(PYTHONPATH=str(site), NUMBA_DISABLE_JIT="1"),  # saves seconds
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("changed: trainer.max_epochs=4") == 1
    assert "accuracy (best_test)" in done.stdout
    [run_dir] = run_dirs(folder)
    check_default_run(run_dir)


def check_default_run(folder: Path) -> None:
    """Check four epochs of ``focusing train`` without other options."""
    assert folder.parts[-3] == "learning_to_focus"
    assert {path.name for path in folder.iterdir()} == {
        *("config.yaml", "result.json", "metrics.csv", "focus.npz", "checkpoints", "figures")
    }
    figures = {path.stem for path in (folder / "figures").glob("[!.]*")}
    assert figures == {
        *("foci_hidden1", "trajectory_hidden1", "weights_hidden1", "losses", "confusion")
    }
    run = record(folder)
    assert (run["schema"], run["status"], run["error"]) == (1, "done", None)
    assert run["config"] == yaml.safe_load((folder / "config.yaml").read_text())
    assert run["config_hash"] == folder.parts[-2]
    assert run["data"]["train"] + run["data"]["test"] == 2857
    assert run["data"]["informative"] == [20, 40]
    assert all(len(values) == 4 for values in run["series"].values())
    assert run["scores"]["holdout"] is None
    assert run["scores"]["best_test"]["value"] == max(run["series"]["test/acc"])
    assert run["scores"]["last"] == {"value": run["series"]["test/acc"][-1], "epoch": 3}
    # 40 inputs, 4 neurons with foci and batch norm, 2 classes; connections are those in the foci.
    assert run["network"]["parameters"] == run["network"]["trained"] == 190
    assert 8 < run["network"]["connections"] == run["network"]["multiply_adds"] <= 168
    assert run["wall_seconds"] > 0
    assert run["steps_per_second"] > 0
    assert run["peak_memory_bytes"] > 2**20
    assert len((folder / "metrics.csv").read_text().splitlines()) == 5
