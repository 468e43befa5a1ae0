"""focusing prune, export and predict, as typed; the rest is tested in tests/unit/shipping."""

import json
from pathlib import Path

import pytest

from tests.integration.commands import run_here
from tests.unit.shipping.conftest import SYNTHETIC, make_run

pytestmark = pytest.mark.slow


def test_from_a_run_to_an_answer(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "outputs", *SYNTHETIC, "protocol=holdout")
    done = run_here("prune", str(run_dir), "--sparsity", "0.5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "as unpruned" in done.stdout
    assert len(json.loads((run_dir / "pruning.json").read_text())["curve"]) == 41

    options = ["--format", "exported-program", "--sparse", "--pruned", "--out", "net.pt2"]
    done = run_here("export", str(run_dir), *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "50.0 % of the connections dropped" in done.stdout
    assert done.stderr == ""

    (tmp_path / "rows.csv").write_text("\n".join([",".join(["0.1"] * 40)] * 2))
    (tmp_path / "short.csv").write_text("1,2,3\n")
    done = run_here("predict", "net.pt2", "rows.csv", "--json", "--trust", cwd=tmp_path)
    assert [each["input"] for each in json.loads(done.stdout)] == ["rows.csv[0]", "rows.csv[1]"]
    done = run_here("predict", "net.pt2", "rows.csv", "short.csv", "--trust", cwd=tmp_path)
    assert done.returncode == 1
    expected = "Error: short.csv has shape 1x3: this network wants rows of 40 numbers.\n"
    assert done.stderr == expected
