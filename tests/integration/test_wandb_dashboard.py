"""``focusing wandb dashboard``: the workspace that the command, or its saved code, sends."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from focusing.errors import UserError
from tests.command_line import dashboard
from tests.command_line import wandb as _wandb
from tests.integration.wandb_server import Server
from tests.unit.reports.records import add_run

# From importing wandb-workspaces.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def records(no_wandb: None, tmp_path: Path) -> None:
    foci = {"first": {"moved": 0.1}}
    add_run(tmp_path / "outputs", "mine", "mnist", "focus_s", 0, [0.5], focus=foci)
    add_run(tmp_path / "outputs", "mine", "boston", "dense", 0, [3.0])
    measured = {"pruning": {"curve": []}}
    add_run(tmp_path / "outputs", "sparsity", "mnist", "focus_s", 0, [0.5], measured=measured)
    trial = {"sweep.trial": 0, "data.noise": 0, "data.informative": 20}
    add_run(tmp_path / "outputs", "table1", "synthetic", "focus_s", 0, [0.5], options=trial)


def spec(server: Server) -> dict[str, Any]:
    """Return the spec of the only workspace."""
    (view,) = server.views
    assert view["displayName"] == "Focusing"
    shown = json.loads(view["spec"])
    for section in shown["section"]["panelBankConfig"]["sections"]:
        for panel in section["panels"]:
            del panel["__id__"]  # random
    for run_set in shown["section"]["runSets"]:
        del run_set["id"]
    return shown  # type: ignore[no-any-return]


def test_workspace_is_created_once_and_saved_as_code(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb_workspaces")
    dashboard(["--project", "p"])
    address = capsys.readouterr().out
    assert address.startswith(f"{server.url}/me/p?nw=")
    made = spec(server)
    sections = made["section"]["panelBankConfig"]["sections"]
    panels = {part["name"]: [panel["config"] for panel in part["panels"]] for part in sections}
    assert [*panels] == ["mine", "sparsity", "table1", "All runs: training", "All runs: foci"]
    assert not any(section["isOpen"] for section in sections)
    bars = panels["mine"]
    assert [bar["metrics"] for bar in bars] == [["mine/mnist"], ["mine/boston"]]
    assert {bar["groupBy"] for bar in bars} == {"label.value"}
    (scatter,) = panels["table1"]
    assert scatter["panelDefId"] == "wandb/scatter/v0"
    assert scatter["fieldSettings"] == {"x": "dense", "y": "focus_s"}
    bar, curve, *_ = panels["sparsity"]
    assert (bar["metrics"], curve["xAxis"]) == (["sparsity/mnist"], "pruning/sparsity")
    assert panels["All runs: foci"][0]["mediaKeys"] == ["focus/first"]
    (runs,) = made["section"]["runSets"]
    assert [key["name"] for key in runs["grouping"]] == ["group", "config_hash.value"]

    dashboard(["--project", "p"])
    assert spec(server) == made  # not a second one

    dashboard(["--project", "p", "--save", "mine.py"])
    server.views.clear()
    capsys.readouterr()
    runpy.run_path("mine.py")
    assert capsys.readouterr().out == address
    assert spec(server) == made


def test_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    _wandb(["dashboard", "--dry-run", "--name", "Ours"])
    assert "name='Ours'" in capsys.readouterr().out
    _wandb(["sweep", "seed=0,1", "--dry-run"])
    assert "values: [0, 1]" in capsys.readouterr().out
    with pytest.raises(UserError, match="'pull' .choose from 'push', 'dashboard', 'sweep'"):
        _wandb(["pull"])


def test_missing_key_or_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb_workspaces")
    told = r"W&B: no API key \(wandb login\), so the workspace 'Focusing' of team/focusing with 5 "
    with pytest.raises(UserError, match=told + r"sections, \d+ panels was not made"):
        dashboard(["--entity", "team"])
    monkeypatch.setitem(sys.modules, "wandb_workspaces", None)
    with pytest.raises(UserError, match=r"pip install 'focusing\[wandb-workspaces\]'"):
        dashboard([])
    dashboard(["--dry-run"])  # needs neither
    assert "'metrics': ['mine/mnist']" in capsys.readouterr().out
    Path("empty").mkdir()
    with pytest.raises(UserError, match="No finished runs below empty"):
        dashboard(["empty", "--dry-run"])
