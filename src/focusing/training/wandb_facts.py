"""What W&B is told about a run: the same while it trains and from its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from focusing.results.identity import config_hash

TAGGED = ("data", "model", "size", "variant", "protocol")
PAPER = "paper"
PRUNING = "pruning/sparsity"
"""The axis of the curves of accuracy against sparsity."""


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run as W&B shows it.

    Beside all options, but not the folders of this machine, it has ``config_hash``, equal for runs
    that differ in their seed only, and ``label``: the model, what makes its scores others than
    those of the paper's edition, and the experiment.
    """
    if not config:
        return {}
    chosen = _chosen(config)
    label = [chosen.get("model", "?")]
    label += [chosen[each] for each in TAGGED[2:] if chosen.get(each, PAPER) != PAPER]
    data = config.get("data") or {}
    label += ["fake data"] if data.get("fake") else []
    label += ["sample"] if data.get("on_missing") == "sample" else []
    of = f" ({config['name']})" if "name" in config else ""
    told = {name: value for name, value in config.items() if name != "paths"}
    return {**told, "config_hash": config_hash(config), "label": f"{', '.join(label)}{of}"}


def tags(config: Mapping[str, Any]) -> list[str]:
    """``data=mnist``, ``model=focus_s``, ..., as they are typed on the command line."""
    return [f"{name}={value}" for name, value in _chosen(config).items()]


def summary_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a run, for W&B's table of runs.

    Returns:
        ``score/<protocol>``; ``<metric>/<data>``: the score under the protocol of the run;
        ``focus/<layer>/moved``, ...; ``<callback>/<measurement>``; size and cost of the network.
    """
    scores = {name: each["value"] for name, each in record["scores"].items() if each}
    found: dict[str, Any] = {f"score/{name}": value for name, value in scores.items()}
    chosen = scores.get(record["config"]["protocol"]["name"])
    if chosen is not None:
        found[f"{record['metric']}/{record['data']['name']}"] = chosen
    for name in ("wall_seconds", "steps_per_second", "peak_memory_bytes"):
        if record.get(name) is not None:
            found[name] = record[name]
    for group, value in (
        ("network", record.get("network")),
        ("focus", record.get("focus")),
        ("", record.get("measured")),
    ):
        found.update(_numbers(group, value or {}))
    return {**found, "status": record["status"], "finished": record.get("finished")}


def curves_of(record: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    """Rows of the curves of scores against sparsity, if the run measured them."""
    pruning = (record.get("measured") or {}).get("pruning") or {}
    for rule, name in (("curve", "focus"), ("magnitude", "magnitude")):
        for point in pruning.get(rule) or ():
            row = {PRUNING: point["sparsity"]}
            if "threshold" in point:
                row["pruning/threshold"] = point["threshold"]
            measured = ((metric, point.get(metric)) for metric in ("acc", "mae"))
            row |= {f"pruning/{name}_{key}": value for key, value in measured if value is not None}
            yield row


def define_metrics(run: Any) -> None:
    """Tell a W&B run what its curves are drawn against."""
    run.define_metric("epoch")
    run.define_metric(PRUNING, hidden=True)
    run.define_metric("pruning/*", step_metric=PRUNING)
    run.define_metric("*", step_metric="epoch")


def _chosen(config: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name in TAGGED:
        value = config.get(name)
        value = value.get("name") if isinstance(value, Mapping) else value
        if value is not None:
            found[name] = str(value)
    return found


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _numbers(f"{name}/{key}" if name else str(key), below)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value
