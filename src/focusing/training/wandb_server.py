"""Whether W&B can be reached, found out within seconds."""

from __future__ import annotations

import netrc
import os
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE = 3.0
"""Seconds to wait for a connection."""


def obstacle(timeout: float = PATIENCE) -> str | None:
    """Why nothing can be sent to W&B, in a few words; None if there is a key and a connection."""
    import wandb

    url = os.environ.get("WANDB_BASE_URL") or str(wandb.Settings().base_url)
    if not _has_key(url):
        return "no API key (wandb login)"
    return None if _answers(url, min(timeout, PATIENCE)) else "no connection"


def _has_key(url: str) -> bool:
    """Whether W&B would find a key where ``wandb login`` and its documentation put one."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    given = os.environ.get("NETRC")
    paths = [Path(given)] if given else [Path.home() / name for name in (".netrc", "_netrc")]
    for path in paths:
        try:
            hosts = netrc.netrc(path).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if urlsplit(url).netloc in hosts or any("wandb" in host for host in hosts):
            return True
    return False


def _answers(url: str, timeout: float) -> bool:
    """Whether the server, or the proxy before it, takes a connection within ``timeout`` seconds."""
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    parts = urlsplit(proxy or url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    found = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection((parts.hostname or "", port), timeout=timeout).close()
        except OSError:
            return
        found.set()

    # In a thread, because a name server that is silent keeps a lookup waiting beyond any timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout)
    return found.is_set()
