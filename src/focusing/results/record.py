"""``result.json``: all that is kept of a run. What comes later reads records and nothing else."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from focusing.errors import DamagedError, UserError
from focusing.results.files import atomic_write
from focusing.results.record_schema import check_record, parse
from focusing.schema import SCHEMA, printable, short

FILE = "result.json"
PACKAGES = ("focusing", "torch", "pytorch-lightning", "hydra-core", "omegaconf", "numpy")


def write_record(run_dir: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Write the record of a run; its presence, with status ``done``, means that the run is done.

    Returns:
        The record as it will be read.

    Raises:
        UserError: nobody could read it, as it holds NaN or what is not plain.
    """
    told = record.get("error") and printable(str(record["error"]))
    try:
        text = json.dumps({"schema": SCHEMA, **record, "error": told}, indent=1)
        written: dict[str, Any] = parse(text)
        check_record(written)
    except (TypeError, ValueError) as error:
        raise UserError(f"The record of this run cannot be written: {error}.") from None
    atomic_write(run_dir / FILE, text.encode())
    return written


def read_record(run_dir: Path) -> dict[str, Any] | None:
    """The record of a run, or None if there is none.

    Raises:
        DamagedError: it is not what a run leaves.
        UserError: another version has written it.
    """
    path = run_dir / FILE
    try:
        record: dict[str, Any] = parse(path.read_bytes())
        if isinstance(record, dict) and record.get("schema", SCHEMA) != SCHEMA:
            raise UserError(
                f"{path} has schema {short(record['schema'])}, this version reads {SCHEMA}."
            )
        check_record(record)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedError(path, f"is not a record: {error}") from None
    return record


def now() -> str:
    """The time of day, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Of Python and of the packages that decide about results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a checkout that is not installed
            continue
    return found


def machine() -> dict[str, Any]:
    """What decides about times: system, processor, cores, and the GPU if there is one."""
    import torch

    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _processor() -> str:
    """Its name where Linux tells it, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())


def git_state() -> dict[str, Any] | None:
    """Commit of the code, and whether it was changed since; None if it is not in a repository."""
    here = Path(__file__)
    commands = {
        "tracked": ["ls-files", "--error-unmatch", here.name],  # not merely in somebody's .venv
        "commit": ["rev-parse", "HEAD"],
        "changes": ["status", "--porcelain", ":/src", ":/conf"],
    }
    found = {}
    for name, arguments in commands.items():
        try:
            done = subprocess.run(  # noqa: S603 - fixed arguments
                ["git", *arguments],  # noqa: S607 - the user's git
                cwd=here.parent,
                capture_output=True,
                text=True,
                timeout=10,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode:
            return None
        found[name] = done.stdout.strip()
    return {"commit": found["commit"], "dirty": bool(found["changes"])}
