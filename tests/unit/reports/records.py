"""Writes records, arrays and configs of made-up runs for tests of reports."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from focusing.compose import compose_config
from focusing.reports.figures.chart import Chart, Charts, Runs
from focusing.reports.paper import published_tables
from focusing.reports.plans import TRIALS_EXPERIMENT, composed
from focusing.reports.tables import Table
from focusing.results.collect import Collection
from focusing.results.identity import config_hash
from focusing.results.record import scores
from focusing.results.store import write_record

SMALLEST: dict[str, Any] = {
    "experiment": "x",
    "config": {"data": {"name": "d"}, "model": {"name": "m"}, "protocol": {"name": "last"}},
    "config_hash": "0",
    "seed": 0,
    "status": "done",
    "metric": "accuracy",
    "scores": {"last": {"value": 0.5, "epoch": 0}},
}
"""The smallest valid record."""


@cache  # it takes half a second
def focus_config(data: str) -> dict[str, Any]:
    cfg = compose_config(f"data={data}", "model=focus_s")
    return OmegaConf.to_container(cfg, resolve=True)  # type: ignore[return-value]


def config_of(
    experiment: str, data: str, model: str, size: str, variant: str, *, holdout: bool
) -> dict[str, Any]:
    """Composed config of an experiment of the paper; for others, the options that tables read."""
    config: dict[str, Any] = {}
    if experiment in (*published_tables(), TRIALS_EXPERIMENT):
        config = deepcopy(composed(experiment, size, variant, data, model) or {})  # type: ignore[arg-type]
    if not config:
        config = deepcopy(focus_config("synthetic" if data == "synthetic" else "fashion"))
        config["data"]["name"], config["model"]["name"] = data, model
        if "dense" in model:
            kept = ("_target_", "name", "hidden")
            config["model"] = {name: config["model"][name] for name in kept}
    protocol = (
        {"name": "holdout", "holdout": 0.1} if holdout else {"name": "best_test", "holdout": 0.0}
    )
    return {**config, "protocol": protocol}


def add_run(
    folder: Path,
    experiment: str,
    data: str,
    model: str,
    seed: int,
    test: Sequence[float],
    *,
    val: Sequence[float] | None = None,
    source: str = "official",
    fingerprint: str = "f0",
    content: str | None = None,
    size: str = "full",
    variant: str = "text",
    options: dict[str, Any] | None = None,
    sizes: dict[str, Any] | None = None,
    **more: Any,
) -> Path:
    """Write the record of a made-up run.

    Args:
        test: test scores of its epochs, as fractions or errors.
        val: the same on a validation split; None if the run has no such split.
        options: dotted names of the config -> values.
        sizes: entries of the record's ``data``.
        more: further entries of the record.
    """
    config = config_of(experiment, data, model, size, variant, holdout=val is not None)
    config.update(name=experiment, seed=seed, size=size, variant=variant)
    for name, value in (options or {}).items():
        *groups, last = name.split(".")
        place = config
        for group in groups:
            place = place[group]
        place[last] = value
    metric = "mae" if data == "boston" else "accuracy"
    short = {"mae": "mae", "accuracy": "acc"}[metric]
    series = {f"test/{short}": list(test)} | ({f"val/{short}": list(val)} if val else {})
    folder = folder / experiment / config_hash(config) / f"seed={seed}"
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "experiment": experiment,
        "config": config,
        "config_hash": config_hash(config),
        "seed": seed,
        "data": {"name": data, "source": source, "fingerprint": fingerprint}
        | {"train": 100, "test": 25}
        | ({"content": content} if content else {})
        | (sizes or {}),
        "metric": metric,
        "network": {"parameters": 10, "trained": 10},
        "status": "done",
        "error": None,
        "wall_seconds": 1.5,
        "focus": None,
        "series": series,
        "scores": scores(series, metric),
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:01+00:00",
    }
    write_record(folder, {**record, **more})
    return folder


def add_runs(
    folder: Path, experiment: str, data: str, models: Mapping[str, Sequence[float]], **more: Any
) -> None:
    """Write a record for every score of every model, with seeds 0, 17, 34, ..."""
    for model, values in models.items():
        for place, score in enumerate(values):
            add_run(folder, experiment, data, model, 17 * place, [score], **more)


def foci_arrays(
    mu: Any = None, tau: Any = None, *, neurons: int = 3, epochs: int = 60
) -> dict[str, Any]:
    """Arrays of ``focus.npz`` with the foci of one layer; random ones unless they are passed.

    Args:
        mu: centres of shape (epochs, neurons, axes).
        tau: positions of the inputs, (inputs, axes).
        neurons: of random foci.
        epochs: of random foci.
    """
    random = np.random.default_rng(0)
    mu = random.uniform(0.1, 0.9, (epochs, neurons, 1)) if mu is None else mu
    tau = np.linspace(0, 1, 20)[:, None] if tau is None else tau
    first, last = random.uniform(size=(2, mu.shape[1], len(tau)))
    floats = {"mu": mu, "sigma": random.uniform(0.1, 0.9, mu.shape), "tau": tau,
              "weight_first": first, "weight_last": last}  # fmt: skip
    layer = {name: array.astype(np.float32) for name, array in floats.items()}
    layer |= {"shown": np.arange(mu.shape[1])}
    layer |= {"focus": np.array("gaussian"), "normalizer": np.array("l2")}
    return {"epoch": np.arange(len(mu)), **{f"hidden1/{name}": layer[name] for name in layer}}


def add_foci(folder: Path, mu: Any = None, tau: Any = None, **more: int) -> None:
    """Write the foci of a made-up run; see :func:`foci_arrays`."""
    np.savez(folder / "focus.npz", allow_pickle=False, **foci_arrays(mu, tau, **more))


def texts(table: Table) -> list[list[str]]:
    """The cells of a table, row by row."""
    return [[" ".join(cell.printed) for cell in row.cells] for row in table.rows]


def of_protocol(table: Table, protocol: str = "best_test") -> list[Mapping[str, Any]]:
    """The records of a table under a protocol."""
    return [record for record in table.records if record["protocol"] == protocol]


def charts_of(family: Callable[[Runs], Charts], collection: Collection) -> list[Chart]:
    """The figures of a family."""
    return list(family(Runs(collection)))
