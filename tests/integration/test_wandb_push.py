"""``focusing wandb push`` with W&B's client, against a fake server."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from focusing.errors import UserError
from tests.command_line import push
from tests.integration.wandb_server import Server
from tests.unit.reports.records import add_run

PRUNING = {
    "curve": [
        {"threshold": 0.0, "sparsity": 0.0, "acc": 0.8},
        {"threshold": 1.0, "sparsity": 0.5, "acc": 0.7},
    ]
}
TIMING = {
    "ratio": {"train": 1.5},
    "quartiles": {"train": [1.4, 1.6]},
    "rounds": 3,
    "device": "cpu",
    "threads": 1,
}


pytestmark = pytest.mark.usefixtures("no_wandb")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Write a run with everything that a run can leave."""
    folder = add_run(
        tmp_path / "outputs",
        "mine",
        "mnist",
        "focus_s",
        17,
        [0.5, 0.7, 0.8],
        size="quick",
        focus={"hidden1": {"moved": 0.1, "sigma_first": 0.1, "sigma_last": 0.2}},
        measured={"pruning": PRUNING, "timing": TIMING},
        network={"parameters": 10, "trained": 10},
    )
    (folder / "figures").mkdir()
    for name, colour in (("foci_hidden1", (255, 0, 0)), ("losses", (0, 0, 255))):
        Image.new("RGB", (8, 6), colour).save(folder / "figures" / f"{name}.png")
    foci = np.linspace(0, 1, 12).reshape(2, 6, 1)
    arrays = {"epoch": np.array([0, 3]), "hidden1/mu": foci, "hidden1/sigma": (foci + 1) / 2}
    np.savez(folder / "focus.npz", **arrays)
    return folder


def epochs(sent: dict[str, Any]) -> list[Any]:
    return [(row["epoch"], row["test/acc"]) for row in sent["history"] if "test/acc" in row]


def test_run_is_sent_once(
    run_dir: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    push(["outputs", "--project", "p"])
    assert capsys.readouterr().out.splitlines()[-1] == "Sent 1 run to me/p."
    ((name, sent),) = server.runs.items()
    assert (sent["project"], sent["groupName"], sent["jobType"]) == ("p", "mine", "train")
    assert sent["displayName"] == "focus_s · mnist · seed 17"
    assert sent["state"] == "finished"
    assert "data=mnist" in sent["tags"]
    config = {key: entry["value"] for key, entry in sent["config"].items()}
    assert config["config_hash"] == run_dir.parent.name
    assert config["label"] == "focus_s, quick (mine)"
    assert config["seed"] == 17
    assert config["data"]["name"] == "mnist"
    assert config["source"] == "official"
    assert "paths" not in config
    assert epochs(sent) == [(0, 0.5), (1, 0.7), (2, 0.8)]
    rates = [(row["lr/weight"], row["lr/sigma"]) for row in sent["history"] if "lr/weight" in row]
    assert rates == [(0.1, 5e-4)] * 3
    known = [row for row in sent["history"] if "focus/hidden1/mu_mean" in row]
    means = {row["epoch"]: row["focus/hidden1/mu_mean"] for row in known}
    assert means[0] == pytest.approx(2.5 / 11)
    assert means[3] == pytest.approx(8.5 / 11)
    assert sum("pruning/sparsity" in row for row in sent["history"]) == 2
    summary = sent["summary"]
    assert summary["score/best_test"] == summary["mine/mnist"] == 0.8
    assert summary["focus/hidden1/moved"] == 0.1
    assert summary["timing/ratio/train"] == 1.5
    picture = (run_dir / "figures" / "foci_hidden1.png").read_bytes()
    assert server.files[f"{name}/{summary['focus/hidden1']['path']}"] == picture
    assert summary["figures/losses"]["width"] == 8
    table = json.loads(server.files[f"{name}/{summary['foci/hidden1']['path']}"])
    assert table["columns"] == ["neuron", "mu_first", "sigma_first", "mu_last", "sigma_last"]
    assert table["data"][5] == pytest.approx([5, 5 / 11, 8 / 11, 1, 1])

    before = json.dumps(server.runs)
    server.calls.clear()
    push(["outputs", "--project", "p"])
    assert capsys.readouterr().out == "Sent 0 runs to me/p, 1 run had been there.\n"
    assert "UpsertBucket" not in server.calls
    assert json.dumps(server.runs) == before

    push(["outputs", "--project", "another"])
    assert sorted(server.runs) == [name.replace("p/", "another/"), name]


def test_interrupted_push_is_completed(run_dir: Path, server: Server) -> None:
    whole = (run_dir / "figures/losses.png").read_bytes()
    (run_dir / "figures/losses.png").write_bytes(b"")
    with pytest.raises(
        UserError, match=r"W&B did not take mine/.* \(0 of 1 run sent; the same"
    ) as error:
        push(["outputs"])
    assert str(error.value).count(". ") == 0
    (sent,) = server.runs.values()
    assert sent["state"] == "failed"
    assert len(epochs(sent)) == 3
    (run_dir / "figures/losses.png").write_bytes(whole)
    push(["outputs"])
    assert sent["state"] == "finished"
    assert epochs(sent) == [(0, 0.5), (1, 0.7), (2, 0.8)]  # not twice
    assert sent["summary"]["figures/losses"]["size"] == len(whole)


def test_push_updates_a_run_logged_during_training(run_dir: Path, server: Server) -> None:
    (run_dir / "wandb").mkdir()
    (run_dir / "wandb" / "run_id").write_text("live1234")
    push(["outputs"])
    assert list(server.runs) == ["focusing/live1234"]
    # A run that was logged online has history and scores, but no figures and no mark of ours.
    sent = server.runs["focusing/live1234"]
    rows = len(sent["history"])
    del sent["summary"]["record"], sent["summary"]["figures/losses"]
    push(["outputs"])
    assert len(epochs(sent)) == 3
    assert len(sent["history"]) == rows + 1
    assert "figures/losses" in sent["summary"]


def test_trials_become_a_table(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def trial(number: int, **scores: float) -> None:
        for model, score in scores.items():
            options = {"sweep.trial": number, "data.noise": 20, "data.informative": 20}
            folder = tmp_path / "outputs"
            add_run(folder, "table1", "synthetic", model, number, [score], options=options)

    trial(0, dense=0.5, focus_s=0.75)
    trial(1, dense=0.25)
    push([])
    ((name, sent),) = server.runs.items()
    key = sent["summary"]["trials_table"]["path"]
    table = json.loads(server.files[f"{name}/{key}"])
    assert table["columns"][4:] == ["dense", "focus_s"]
    assert [row[:1] + row[4:] for row in table["data"]] == [[0, 50, 75], [1, 25, None]]
    assert sent["summary"]["focus_s - dense"] == 25
    trial(2, dense=0.5, focus_s=0.5)
    push([])
    assert list(server.runs) == [name]
    assert sent["summary"]["n_trials"] == 3
    assert capsys.readouterr().out.splitlines()[-1] == "Sent 1 run to me/focusing."


def test_missing_key_or_network(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = r"so 1 run for focusing not sent \(--dry-run lists them\)\.$"
    with pytest.raises(UserError, match=rf"W&B: no API key \(wandb login\), {told}"):
        push(["outputs"])
    monkeypatch.setenv("WANDB_MODE", "offline")
    with pytest.raises(UserError, match=f"WANDB_MODE=offline, {told}"):
        push(["outputs"])
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=f"no connection, {told}"):
        push(["outputs"])
    push(["outputs", "--dry-run", "--entity", "team"])
    head, line = capsys.readouterr().out.splitlines()
    assert head == "Would send 1 run to team/focusing:"
    assert "mine/" in line
    assert "model=focus_s" in line
    assert line.endswith("(scores, history, 2 figures, foci of hidden1)")
    with pytest.raises(UserError, match="focusing wandb push: unrecognized arguments: --dry"):
        push(["outputs", "--dryly"])
