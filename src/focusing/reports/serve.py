"""``focusing report --serve``: serves the report and updates it whenever a run finishes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rich.console import Console

from focusing.errors import UserError
from focusing.reports.report import CACHE, headline, no_runs_message, write_report
from focusing.results.collect import Collection, collect

MIN_INTERVAL, MAX_INTERVAL = 2.0, 60.0
"""Seconds between two searches for records."""
IDLE_FACTOR = 4.0
"""The server sleeps this many times the CPU time of its last search, to leave the CPU to sweeps."""
VERSION = "/version"
HOSTS = ("127.0.0.1", "localhost")
SCRIPT = """<script>
setInterval(async () => {
  try {
    const answer = await fetch("/version", {cache: "no-store"});
    if (await answer.text() !== "%s") location.reload();
  } catch (error) { /* the server is gone: the page stays */ }
}, 1000);
</script>
"""
WAITING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>focusing</title>
<style>body { font: 1.1rem/1.5 system-ui, sans-serif; margin: 20vh auto; max-width: 30rem }</style>
<p>%s
"""
NO_RUNS = "No finished runs yet; this page waits for one."
MAKING = "The report is being made; this page shows it as soon as it is done."


class Handler(SimpleHTTPRequestHandler):
    """Serves the files of the report; pages get a script that reloads them when they change."""

    server: Server

    def parse_request(self) -> bool:
        """Refuse requests for other hosts and for hidden files."""
        if not super().parse_request():
            return False
        path = unquote(self.path.partition("?")[0])
        if (self.headers.get("Host") or "").rpartition(":")[0] not in HOSTS:
            self.send_error(403)  # DNS rebinding: a foreign page whose name resolves to us
            return False
        if any(part.startswith(".") for part in path.split("/")):
            self.send_error(404)  # caches of the report hold paths of this machine
            return False
        return True

    def do_GET(self) -> None:
        """Answer with the version, a page or a file."""
        path = self.path.partition("?")[0]
        if path == VERSION:
            self._answer(self.server.state.encode(), "text/plain")
            return
        file = Path(self.translate_path(path))
        file = file / "index.html" if file.is_dir() else file
        # The state is read before the page, so that no change is missed.
        script = (SCRIPT % self.server.state).encode()
        if file.suffix == ".html" and file.exists():
            self._answer(file.read_bytes() + script, "text/html; charset=utf-8")
        elif path == "/":
            message = NO_RUNS if self.server.without_runs else MAKING
            self._answer((WAITING % message).encode() + script, "text/html; charset=utf-8")
        else:
            super().do_GET()

    def _answer(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log no requests."""


class Server(ThreadingHTTPServer):
    """Serves a report to this machine only, and writes it again when records change.

    Args:
        folders: searched for records.
        out: folder of the report.
        port: port to listen on; 0 for any free one.

    Attributes:
        version: number of times that the report was written.
        without_runs: whether the last search found no runs.
    """

    daemon_threads = True

    def __init__(self, folders: Sequence[Path], out: Path, port: int) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.folders, self.out, self.version = folders, out, 0
        self.without_runs = False
        self._seen: object = None
        super().__init__(("127.0.0.1", port), partial(Handler, directory=str(out)))

    @property
    def state(self) -> str:
        """Value that pages poll: they reload when it changes."""
        return str(self.version) if self.version or self.without_runs else "making"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that close the connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def update(self) -> Collection | None:
        """Write the report if records changed; returns the runs, or None if nothing was written."""
        collection = collect(self.folders, self.out / CACHE)
        runs = [*collection.runs, *collection.failed]
        self.without_runs = not runs
        seen = [(run.path, run.finished, run.status) for run in runs]
        if seen == self._seen or not runs:
            return None
        write_report(collection, self.out)
        self._seen, self.version = seen, self.version + 1
        return collection


def serve(folders: Sequence[Path], out: Path, port: int, console: Console) -> None:
    """Serve the report until Ctrl-C."""
    try:
        server = Server(folders, out, port)
    except OSError as error:
        raise UserError(f"Port {port} cannot be used: {error.strerror}; try --port 0.") from None
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        waiting, printed = False, ""
        console.print(f"http://127.0.0.1:{server.server_port} (Ctrl-C ends it)")
        while True:
            began = time.process_time()
            collection = None
            try:
                collection = server.update()
            except Exception as error:  # records may be incomplete: try again
                if printed != (printed := f"No new report: {type(error).__name__}: {error}"):
                    console.print(printed, markup=False, soft_wrap=True)
            if collection is not None:
                console.print(headline(collection, out), soft_wrap=True, markup=False)
            elif server.version == 0 and not waiting:
                console.print(no_runs_message(folders), soft_wrap=True, markup=False)
                waiting = True
            idle = IDLE_FACTOR * (time.process_time() - began)
            time.sleep(min(MAX_INTERVAL, max(MIN_INTERVAL, idle)))
