"""The wheel brings its configs along and its command works in any folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.commands import ROOT, SMALL, environment, record, run_dirs

pytestmark = pytest.mark.slow


def test_the_wheel_trains_outside_the_checkout(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    options = ["--disable-pip-version-check", "--no-index", "--wheel-dir", str(tmp_path)]
    subprocess.run([*command, *options, str(ROOT)], check=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        names = archive.namelist()
    shipped = {name.removeprefix("focusing/conf/") for name in names if "/conf/" in name}
    assert shipped == {
        str(path.relative_to(ROOT / "conf")) for path in (ROOT / "conf").rglob("*.yaml")
    }
    assert "focusing/reports/paper.yaml" in names
    templates = ROOT / "src/focusing/reports/page/templates"
    assert {f"focusing/reports/page/templates/{path.name}" for path in templates.iterdir()} <= {
        *names
    }
    assert "hydra_plugins/focusing_sweeps/grid_sweeper.py" in names
    assert "hydra_plugins/__init__.py" not in names  # it is shared with other projects
    [entry] = site.glob("*.dist-info/entry_points.txt")
    assert "focusing = focusing.cli:main" in entry.read_text()

    folder = tmp_path / "anywhere"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "from focusing.cli import main; main()", "train", *SMALL],
        cwd=folder,
        env=environment(PYTHONPATH=str(site), NUMBA_DISABLE_JIT="1"),  # compiling takes seconds
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    [run_dir] = run_dirs(folder)
    assert record(run_dir)["status"] == "done"
