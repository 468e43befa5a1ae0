"""The lock file covers pyproject.toml, and the Makefile trusts only a finished install."""

import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.integration.commands import ROOT


def pins() -> list[Requirement]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def test_dependencies_are_pinned_within_their_ranges() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    ranges = [text for group in groups for text in group if not text.startswith("focusing[")]
    for wanted in map(Requirement, ranges):
        names = [p for p in pins() if canonicalize_name(p.name) == canonicalize_name(wanted.name)]
        versions = [str(p.specifier).removeprefix("==") for p in names]
        assert versions, f"{wanted} has no pin"
        assert all(v in wanted.specifier for v in versions), f"{wanted}: the lock has {versions}"


def test_pins_are_exact_and_fit_a_cpu() -> None:
    unwanted = re.compile(r"nvidia-.*|cuda-.*|torchvision|timm|hydra-optuna-sweeper")
    names = [canonicalize_name(pin.name) for pin in pins()]
    assert len(names) == len(set(names))
    assert not list(filter(unwanted.fullmatch, names))
    # Neither ranges nor local versions: torch==2.13.0+cpu would exclude other builds.
    assert all(re.fullmatch(r"==[\w.]+", str(pin.specifier)) and not pin.marker for pin in pins())


# A fake Python: copies itself as a venv, and logs installs instead of running them.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo venv >> log ;;
    "-m pip "*)
        echo "pip $PIP_CONSTRAINT ${*##* }" >> log
        [ ! -e seconds ] || sleep "$(cat seconds)"
        [ ! -e broken ] ;;
    *) echo "$*" >> log ;;
esac
"""
CORE = "pip requirements.lock .[cpu]"
ALL = "pip requirements.lock .[all,dev]"
COMPILE = "-c from focusing.nn.ops.cpu import compile_kernels; compile_kernels()"
TRAIN = "train.py seed=1"


class Project:
    """A copy of the Makefile in a folder of its own, with a fake Python."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        for name in ("Makefile", "pyproject.toml", "requirements.lock"):
            shutil.copy(ROOT / name, root)
        (root / "python").write_text(FAKE_PYTHON)
        (root / "python").chmod(0o755)

    def start(self, target: str) -> "subprocess.Popen[bytes]":
        # The test may run under make, whose flags and variables must not reach this one.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "ARGS"))}
        command = ["make", target, "PYTHON=./python", "ARGS=seed=1"]
        return subprocess.Popen(command, cwd=self.root, env=env, start_new_session=True)

    def make(self, target: str) -> int:
        return self.start(target).wait(timeout=60)

    def log(self) -> list[str]:
        """Return the lines since the last call."""
        log = self.root / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def change(self, changed: str) -> None:
        """Make one input newer than the stamps."""
        for name in ("pyproject.toml", "requirements.lock"):
            os.utime(self.root / name, (1, 3 if name == changed else 1))
        for stamp in self.stamps():
            os.utime(stamp, (1, 2))

    def stamps(self) -> list[Path]:
        return [path for path in self.root.glob(".venv/.*") if path.name in (".core", ".all")]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    if not shutil.which("make"):
        pytest.skip("needs make")
    return Project(tmp_path / "a folder")


def test_targets_install_once(
    project: Project,
) -> None:
    for target, expected in (
        ("train", ["venv", CORE, COMPILE, TRAIN]),
        ("train", [TRAIN]),
        ("setup", [ALL, COMPILE]),
        ("setup", []),
        ("train", [TRAIN]),
    ):
        assert project.make(target) == 0
        assert project.log() == expected


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.lock"])
def test_changed_requirements_are_installed(project: Project, name: str) -> None:
    project.make("setup")
    project.log()
    project.change(name)
    assert project.make("train") == 0
    assert project.log() == [CORE, COMPILE, TRAIN]
    assert project.make("setup") == 0  # train did not update the extras
    assert project.log() == [ALL, COMPILE]


@pytest.mark.parametrize("case", ["fails", "fails to update", "is killed"])
def test_unfinished_install_is_repeated(project: Project, case: str) -> None:
    if case == "fails to update":
        project.make("train")
        project.change("requirements.lock")
    if case == "is killed":
        (project.root / "seconds").write_text("60")
        process = project.start("train")
        while not (project.root / "log").exists() or CORE not in (project.root / "log").read_text():
            time.sleep(0.02)
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        (project.root / "seconds").unlink()
    else:
        (project.root / "broken").touch()
        assert project.make("train") != 0
        (project.root / "broken").unlink()
    assert project.stamps() == []
    project.log()
    assert project.make("train") == 0
    assert project.log() == ["venv", CORE, COMPILE, TRAIN]


def test_concurrent_calls_install_once(project: Project) -> None:
    if not shutil.which("flock"):
        pytest.skip("needs flock")
    (project.root / "seconds").write_text("0.3")
    both = [project.start("train"), project.start("train")]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert project.log() == ["venv", CORE, COMPILE, TRAIN, TRAIN]


def test_copied_venv_is_rebuilt(project: Project) -> None:
    project.make("train")
    project.log()
    project.root = Path(shutil.copytree(project.root, project.root.with_name("copy")))
    assert project.make("train") == 0
    assert project.log() == ["venv", CORE, COMPILE, TRAIN]
