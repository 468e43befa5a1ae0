"""A fake W&B server, which stores what it is sent and answers the calls that we make."""

import gzip
import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

ENTITY = "me"
VIEWER = {"id": "v", "entity": ENTITY, "username": ENTITY, "flags": "{}", "teams": {"edges": []}}
ARTIFACT = {"id": "a", "artifactSequence": {"id": "s", "latestArtifact": None}}
ANSWERS: dict[str, dict[str, Any]] = {
    "Viewer": {"viewer": VIEWER},
    "GetDefaultEntity": {"viewer": VIEWER},
    "ArtifactType": {"project": {"artifact": None}},
    # As if the artifact were known, so that its files are not sent.
    "CreateArtifact": {"createArtifact": {"artifact": {**ARTIFACT, "state": "COMMITTED"}}},
    "CreateAgent": {"createAgent": {"agent": {"id": "agent"}}},
}
"""Constant answers."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_POST(self) -> None:
        body = self._body()
        if self.path == "/graphql":
            request = json.loads(body)
            name = re.search(r"(?:query|mutation)\s+(\w+)", request["query"])
            operation = name.group(1) if name else ""
            with self.server.lock:
                self.server.calls.append(operation)
                data = self.server.answer(operation, request.get("variables") or {})
            self._send({"data": data})
        elif self.path.endswith("/file_stream"):
            with self.server.lock:
                self.server.stream("/".join(self.path.split("/")[-3:-1]), json.loads(body))
            self._send({"exitcode": None, "limits": {}})
        else:
            self._send({})

    def do_PUT(self) -> None:
        with self.server.lock:
            self.server.files[self.path.removeprefix("/storage/")] = self._body()
        self._send({})

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _send(self, answer: Any) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """The state of the server.

    Attributes:
        runs: project/id -> config, history, summary, state and so on.
        files: name -> content; pictures and tables.
        views: saved workspaces.
        sweep: the file of a sweep.
        work: runs that its agents have still to do.
        calls: names of all requests.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.runs: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.views: list[dict[str, Any]] = []
        self.work: list[dict[str, Any]] = []
        self.sweep = ""
        self.calls: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": "0" * 40}

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients hang up when they are done

    def answer(self, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        handler = getattr(self, f"on_{operation}", None)
        return handler(variables) if handler else ANSWERS.get(operation, {})

    def on_RunResumeStatus(self, variables: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(f"{variables['project']}/{variables['name']}")
        if run is None:
            return {"model": None}
        tail = [json.dumps(row) for row in run["history"][-1:]]
        bucket = {
            "id": "b",
            "name": variables["name"],
            "summaryMetrics": json.dumps(run["summary"]),
            "displayName": run["displayName"],
            "logLineCount": 0,
            "historyLineCount": len(run["history"]),
            "eventsLineCount": 0,
            "historyTail": json.dumps(tail),
            "eventsTail": "[]",
            "config": json.dumps(run["config"]),
            "tags": run["tags"],
            "notes": None,
            "wandbConfig": '{"t": {}}',  # the run has started
        }
        return {"model": {**_project(variables["project"]), "bucket": bucket}}

    def on_UpsertBucket(self, variables: dict[str, Any]) -> dict[str, Any]:
        name, project = variables["name"], variables["project"]
        inserted = f"{project}/{name}" not in self.runs
        empty = {"history": [], "summary": {}, "config": {}, "tags": []}
        run = self.runs.setdefault(f"{project}/{name}", empty)
        run["state"] = "running"
        for key, value in variables.items():
            if value is not None or key not in run:
                run[key] = json.loads(value) if key == "config" and value else value
        bucket = {
            "id": "b",
            "name": name,
            "displayName": run["displayName"],
            "description": "",
            "config": json.dumps(run["config"]),
            "sweepName": variables["sweep"],
            "historyLineCount": len(run["history"]),
            "project": _project(project),
        }
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}

    def stream(self, name: str, sent: dict[str, Any]) -> None:
        run = self.runs[name]
        for file, part in (sent.get("files") or {}).items():
            rows = [json.loads(line) for line in part["content"]] if "json" in file else []
            if file == "wandb-history.jsonl":
                run["history"][part["offset"] :] = rows
            elif file == "wandb-summary.json":
                run["summary"] = rows[-1]
        if sent.get("complete"):
            run["state"] = "finished" if sent.get("exitcode") == 0 else "failed"

    def on_CreateRunFiles(self, variables: dict[str, Any]) -> dict[str, Any]:
        files = [
            {
                "name": file,
                "uploadUrl": f"{self.url}/storage/{variables['project']}/{variables['run']}/{file}",
            }
            for file in variables["files"]
        ]
        return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}

    def on_Runs(self, variables: dict[str, Any]) -> dict[str, Any]:
        wanted = json.loads(variables["filters"])["name"]["$in"]
        there = [run for run in self.runs.values() if run["project"] == variables["project"]]
        if not there:
            return {"project": None}
        ours = [run for run in there if run["name"] in wanted]
        edges = [{"node": _node(run), "cursor": run["name"]} for run in ours]
        page = {"endCursor": None, "hasNextPage": False}
        runs = {"edges": edges, "pageInfo": page}
        project = {"internalId": "1", "runCount": len(ours), "readOnly": False, "runs": runs}
        return {"project": project}

    def on_View(self, variables: dict[str, Any]) -> dict[str, Any]:
        edges = [{"node": view} for view in self.views if view["name"] == variables["viewName"]]
        return {"project": {"allViews": {"edges": edges}}}

    def on_UpsertView2(self, variables: dict[str, Any]) -> dict[str, Any]:
        number = variables.get("id") or str(len(self.views))
        self.views = [view for view in self.views if view["id"] != number]
        self.views.append({**variables, "id": number})
        return {"upsertView": {"view": {"id": number, "name": variables["name"]}, "inserted": True}}

    def on_UpsertSweep(self, variables: dict[str, Any]) -> dict[str, Any]:
        self.sweep = variables["config"]
        parameters = yaml.safe_load(self.sweep)["parameters"]
        values = itertools.product(*(parameter["values"] for parameter in parameters.values()))
        self.work = [dict(zip(parameters, chosen, strict=True)) for chosen in values]
        sweep = {"name": "sweep1", "project": _project(variables["projectName"])}
        return {"upsertSweep": {"sweep": sweep, "configValidationWarnings": []}}

    def on_SweepWithRuns(self, variables: dict[str, Any]) -> dict[str, Any]:
        sweep = {"name": "sweep1", "config": self.sweep, "runs": {"edges": []}}
        return {"project": {"sweep": sweep}}

    def on_Heartbeat(self, variables: dict[str, Any]) -> dict[str, Any]:
        commands: list[dict[str, Any]] = []
        if not json.loads(variables["runState"]):  # the agent is idle
            commands = [{"type": "exit"}]
            if self.work:
                args = {name: {"value": value} for name, value in self.work.pop(0).items()}
                program = yaml.safe_load(self.sweep)["program"]
                run = {"run_id": f"agent{len(self.work)}", "args": args, "program": program}
                commands = [{"type": "run", **run}]
        return {"agentHeartbeat": {"agent": {"id": "agent"}, "commands": json.dumps(commands)}}


def _project(name: str) -> dict[str, Any]:
    return {"id": "p", "name": name, "entity": {"id": "e", "name": ENTITY}}


def _node(run: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "b",
        "projectId": 1,
        "name": run["name"],
        "displayName": run["displayName"],
        "state": run["state"],
        "tags": run["tags"],
        "group": run["groupName"],
        "jobType": run["jobType"],
        "config": json.dumps(run["config"]),
        "summaryMetrics": json.dumps(run["summary"]),
        "systemMetrics": "{}",
        "historyLineCount": len(run["history"]),
        "createdAt": "2026-01-01T00:00:00Z",
        "heartbeatAt": "2026-01-01T00:00:00Z",
        "user": {"name": ENTITY, "username": ENTITY},
    }


@contextmanager
def wandb_server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
