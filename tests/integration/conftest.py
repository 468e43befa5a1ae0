"""Fixtures for W&B: no settings of the user, and a fake server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.wandb_server import Server, wandb_server


@pytest.fixture
def no_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the key and settings of the user, and reset W&B."""
    import wandb  # slow to import

    for name in ("MODE", "API_KEY", "BASE_URL", "SILENT", "ERROR_REPORTING", "DIR"):
        monkeypatch.setenv(f"WANDB_{name}", "")  # so that monkeypatch restores it
        monkeypatch.delenv(f"WANDB_{name}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.chdir(tmp_path)
    wandb.teardown()
    yield
    wandb.teardown()


@pytest.fixture
def server(no_wandb: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start a server, and set a key for it."""
    import wandb

    with wandb_server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server
        wandb.teardown()  # before the server stops
