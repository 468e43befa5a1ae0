"""Make the record of a run: its config, data, network, code, machine, series and scores."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focusing.results.identity import config_hash

if TYPE_CHECKING:
    from focusing.data import DataSet, Split
    from focusing.models import Network

PACKAGES = ("focusing", "torch", "pytorch-lightning", "hydra-core", "omegaconf", "numpy")
METRIC_KEYS = {"accuracy": "acc", "mae": "mae"}
"""Metric of a record -> its name in the series."""

Series = Mapping[str, Sequence[float]]


def start_record(
    config: Mapping[str, Any], data: DataSet, splits: Mapping[str, Split], net: Network
) -> dict[str, Any]:
    """The first half of a record, which is known before training."""
    sizes = {name: len(split.targets) for name, split in splits.items()}
    return {
        "experiment": config["name"],
        "config": config,
        "config_hash": config_hash(config),
        "seed": config["seed"],
        "data": {
            "name": data.name,
            "source": data.source,
            "fingerprint": data.fingerprint,
            "content": data.content,
            **{"train": 0, "val": 0, "test": 0, **sizes},
            "inputs": data.inputs,
            "shape": list(data.train.inputs.shape[1:]),
            "classes": data.classes,
            "informative": data.informative,
            **({"domains": dict(data.domains)} if data.domains else {}),
        },
        "metric": data.metric,
        "network": net.summary().totals(),
        **_code(),
        "started": now(),
    }


def finish_record(start: Mapping[str, Any], series: Series, **more: Any) -> dict[str, Any]:
    """Complete a record after training.

    Args:
        start: the first half.
        series: metric name -> value after every epoch.
        **more: status, error, and results of callbacks.
    """
    return {
        **start,
        **more,
        "series": series,
        "scores": scores(series, start["metric"]),
        "finished": now(),
    }


def scores(series: Series, metric: str) -> dict[str, dict[str, Any] | None]:
    """Test score and epoch, counted from 0, under every protocol.

    Returns:
        ``best_test``: the best of all epochs; ``holdout``: at the epoch with the best validation
        score, None without a validation split; ``last``: after the last epoch.
    """
    key = METRIC_KEYS[metric]
    test, val = series.get(f"test/{key}"), series.get(f"val/{key}")
    if not test:
        return {"best_test": None, "holdout": None, "last": None}
    epochs = {
        "best_test": best_epoch(test, metric),
        "holdout": best_epoch(val, metric) if val else None,
        "last": len(test) - 1,
    }
    return {
        name: None if epoch is None else {"value": test[epoch], "epoch": epoch}
        for name, epoch in epochs.items()
    }


def best_epoch(values: Sequence[float], metric: str) -> int:
    """The first epoch with the best value."""
    best = min(values) if metric == "mae" else max(values)
    return list(values).index(best)


@cache  # the code does not change while a process runs
def _code() -> dict[str, Any]:
    return {"versions": versions(), "git": git_state(), "machine": machine()}


def now() -> str:
    """The current UTC time in ISO format."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that can affect results."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:  # such as focusing in a checkout that is not installed
            continue
    return installed


def machine() -> dict[str, Any]:
    """The hardware and system that training time depends on."""
    import torch

    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def _processor() -> str:
    """Model name of the processor on Linux, elsewhere the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())


def git_state() -> dict[str, Any] | None:
    """Commit of the code, and whether it has uncommitted changes; None outside of a repository."""
    here = Path(__file__)
    commands = {
        "tracked": ["ls-files", "--error-unmatch", here.name],  # not a .venv inside another repo
        "commit": ["rev-parse", "HEAD"],
        "changes": ["status", "--porcelain", ":/src", ":/conf"],
    }
    output = {}
    for name, arguments in commands.items():
        try:
            process = subprocess.run(  # noqa: S603 - fixed arguments
                ["git", *arguments],  # noqa: S607 - the user's git
                cwd=here.parent,
                capture_output=True,
                text=True,
                timeout=10,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if process.returncode:
            return None
        output[name] = process.stdout.strip()
    return {"commit": output["commit"], "dirty": bool(output["changes"])}
