"""The examples run and print what they promise."""

import sys
from pathlib import Path

import pytest

from tests.integration.commands import ROOT
from tests.integration.forked import run_forked

pytestmark = pytest.mark.slow

EXPECTED_OUTPUT = {
    "own_model.py": ["accuracy on 497 digits: 9", "of the connections dropped"],
    "sklearn_table.py": ["focused: 9", "event"],
    "prune_and_export.py": ["% dropped", "was run on 64 test samples", "times as fast"],
}


def test_all_examples_are_known() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXPECTED_OUTPUT)


@pytest.mark.parametrize("name", EXPECTED_OUTPUT)
def test_example(tmp_path: Path, name: str) -> None:
    strict = [sys.executable, "-W", "error"]
    done = run_forked(strict, str(ROOT / "examples" / name), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in EXPECTED_OUTPUT[name]:
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == []
