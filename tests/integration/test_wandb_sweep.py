"""A W&B sweep from our file, with the real ``wandb sweep`` and a real agent."""

import sys
from pathlib import Path

import pytest

from tests.command_line import write_sweep
from tests.integration.commands import FOCUSING, SMALL, record, run_dirs
from tests.integration.forked import run_forked
from tests.integration.wandb_server import wandb_server

AGENT = """
from wandb.cli.cli import cli
from wandb.wandb_agent import Agent

cli(["sweep", "sweep.yaml"], standalone_mode=False)
Agent.POLL_INTERVAL = 0.2  # rather than 5 s
cli(["agent", "--count", "1", "me/p/sweep1"], standalone_mode=False)
"""


def test_agent_runs_our_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept = ["model=focus_s,dense", "~callbacks.stuck", "name=mine", *SMALL]
    out = tmp_path / "sweep.yaml"
    write_sweep(["-m", *swept, "--project", "p", "--out", str(out)])
    assert capsys.readouterr().out == f"{out}: 2 runs. Next: wandb sweep {out}\n"
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    with wandb_server() as server:
        ours = {**server.environment, "HOME": str(tmp_path), "PATH": path}
        done = run_forked([sys.executable, str(agent)], cwd=tmp_path, **ours)
        assert done.returncode == 0, done.stderr
        assert server.work == [{"model": "dense"}]  # left for another agent
        (folder,) = run_dirs(tmp_path)
        left = record(folder)
        assert left["config"]["model"]["name"] == "focus_s"
        # The run belongs to the sweep, and its config is complete.
        ((name, sent),) = server.runs.items()
        assert name == "p/agent1"
        assert (folder / "wandb" / "run_id").read_text() == "agent1"
        assert sent["sweep"] == "sweep1"
        assert sent["project"] == "p"
        assert sent["config"]["model"]["value"] == left["config"]["model"]
        assert sent["state"] == "finished"
        assert sent["summary"]["score/best_test"] == left["scores"]["best_test"]["value"]
        rows = [row["test/acc"] for row in sent["history"] if "test/acc" in row]
        assert rows == left["series"]["test/acc"]

        # Pushing afterwards adds tables of the foci, and nothing twice.
        done = run_forked(FOCUSING, "wandb", "push", cwd=tmp_path, **ours)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("Sent 1 run to me/p.\n")
        assert list(server.runs) == [name]
        assert sum("test/acc" in row for row in sent["history"]) == len(rows)
        assert sent["summary"]["foci/hidden1"]["nrows"] == 4
