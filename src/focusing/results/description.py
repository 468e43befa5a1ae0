"""What a record says about a run before it starts, and after it ends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from focusing.data.dataset import DataSet, Split
from focusing.models import Network
from focusing.results.identity import config_hash
from focusing.results.record import git_state, machine, now, versions
from focusing.results.scores import Series, scores


def describe_start(
    config: Mapping[str, Any], data: DataSet, splits: Mapping[str, Split], net: Network
) -> dict[str, Any]:
    """The first half of a record.

    Args:
        config: plain containers.
        data: the data set.
        splits: how it is used: ``train``, ``test`` and maybe ``val``.
        net: the network.
    """
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
        },
        "metric": data.metric,
        "network": net.summary().totals(),
        **_code(),
        "started": now(),
    }


@cache  # a process runs the code that it began with
def _code() -> dict[str, Any]:
    return {"versions": versions(), "git": git_state(), "machine": machine()}


def describe_end(start: Mapping[str, Any], series: Series, **more: Any) -> dict[str, Any]:
    """The whole record.

    Args:
        start: its first half.
        series: metric name -> value of each epoch.
        **more: status, error, and what callbacks measured.
    """
    return {
        **start,
        **more,
        "series": series,
        "scores": scores(series, start["metric"]),
        "finished": now(),
    }
