"""How long a report of many records takes, and how long a second look at them.

python benchmarks/report.py [--records 1500] [--json FILE]

Trains one small network, then writes records like its own with varied configs and scores: the
random trials of Table 1, Table 2 under two protocols, and a sweep over widths and penalties.
The same records in an archive are read and reported on, too. Beside seconds stand those of the
processor, which other work on the machine does not change.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from focusing.compose import compose_config
from focusing.reports.archive import write_archives
from focusing.reports.report import CACHE, write_report
from focusing.reports.tables.files import all_tables
from focusing.results.collect import collect
from focusing.results.identity import config_hash
from focusing.results.record import scores
from focusing.results.store import write_record
from focusing.run import train

SMALL = ["data.n_samples=200", "trainer.max_epochs=150", "figures=false"]
DATA = ("mnist", "clt", "cifar10", "fashion", "lfw", "fsdd")
MODELS = ("dense", "fixed_s", "focus_c", "focus_s")
SEEDS = (0, 17, 34, 51, 68)
GOALS = {"total": 60.0, "collect_again": 1.0}
"""Seconds, for 1500 records."""


def real_run(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The record and the trajectory of a real run."""
    train(compose_config(*SMALL, f"paths.output_dir={folder}"))
    [path] = folder.glob("*/*/seed=*/result.json")
    return json.loads(path.read_text()), (path.parent / "focus.npz").read_bytes()


def variations(count: int) -> Iterator[dict[str, Any]]:
    """Changes of the config: trials first, then tables and a sweep, as many as are asked for."""
    random = np.random.default_rng(0)
    table2 = [
        {"name": "table2_simple", "data": data, "model": model, "seed": seed, "holdout": holdout}
        for data in DATA for model in MODELS for seed in SEEDS for holdout in (0.0, 0.1)
    ]  # fmt: skip
    sweep = [
        {"name": name, "data": data, "model": "focus_s", "seed": seed, option: value}
        for name, option, values in (
            ("n_hidden", "model.hidden", [[64], [128], [256], [512], [1024]]),
            ("sigma_reg", "optim.sigma_l2", [1e-10, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]),
        )
        for data in DATA[:4] for value in values for seed in SEEDS
    ]  # fmt: skip
    others = (table2 + sweep)[: count // 2]
    for trial in range((count - len(others)) // 2):
        drawn = {
            "data.informative": int(random.choice([4, 40, 400])),
            "data.noise_position": str(random.choice(["left", "sides"])),
            "data.seed": int(random.integers(2**31)),
            "optim.lr": float(random.choice([0.01, 0.001])),
            "sweep.trial": trial,
        }
        drawn["data.noise"] = int(random.choice([0, 0.5, 1]) * drawn["data.informative"])
        for model in ("dense", "focus_s"):
            yield {"name": "table1", "data": "synthetic", "model": model, "seed": 0, **drawn}
    yield from others


def leave(
    folder: Path, record: dict[str, Any], foci: bytes, change: dict[str, Any], number: int
) -> None:
    """Write one record."""
    config, record = copy.deepcopy(record["config"]), copy.deepcopy(record)
    change = dict(change)
    data, model, held = change.pop("data"), change.pop("model"), change.pop("holdout", 0.0)
    config["data"]["name"], config["model"]["name"] = data, model
    config["protocol"] = {"name": "holdout" if held else "best_test", "holdout": held}
    for name, value in change.items():
        *groups, last = name.split(".")
        place = config
        for group in groups:
            place = place[group]
        place[last] = value
    seed = config["seed"]
    random = np.random.default_rng(number)
    record["series"]["test/acc"] = list(np.clip(random.normal(0.9, 0.02, 150), 0, 1))
    if held:
        record["series"]["val/acc"] = list(np.clip(random.normal(0.9, 0.02, 150), 0, 1))
    record |= {"experiment": config["name"], "seed": seed, "config": config}
    record["config_hash"] = config_hash(config)
    record["data"] = {**record["data"], "name": data}
    record["scores"] = scores(record["series"], "accuracy")
    folder = folder / config["name"] / record["config_hash"] / f"seed={seed}"
    folder.mkdir(parents=True, exist_ok=True)
    if model == "dense":
        record["focus"] = None
    else:
        (folder / "focus.npz").write_bytes(foci)
    write_record(folder, record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1500)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, out = Path(scratch, "outputs"), Path(scratch, "report")
        record, foci = real_run(Path(scratch, "real"))
        for number, change in enumerate(variations(options.records)):
            leave(folder, record, foci, change, number)
        seconds: dict[str, float] = {}
        processor: dict[str, float] = {}

        @contextmanager
        def clock(name: str) -> Iterator[None]:
            began = time.perf_counter(), time.process_time()
            yield
            seconds[name] = round(time.perf_counter() - began[0], 3)
            processor[name] = round(time.process_time() - began[1], 3)

        with clock("collect"):
            collection = collect([folder], out / CACHE)
        with clock("collect_again"):
            again = collect([folder], out / CACHE)
        with clock("tables"):
            tables = all_tables(collection)
        with clock("report"):
            write_report(collection, out)
        with clock("report_again"):
            write_report(collection, out)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        with clock("archive"):
            write_archives(collection, Path(scratch, "results"))
        with clock("collect_archive"):
            kept = collect([Path(scratch, "results")], Path(scratch, "kept", CACHE))
        with clock("report_archive"):
            write_report(kept, Path(scratch, "kept"))
    for times in (seconds, processor):
        times["total"] = round(sum(times[name] for name in ("collect", "tables", "report")), 3)
        names = ("collect_archive", "report_archive")
        times["total_archive"] = round(sum(times[name] for name in names), 3)
    measured = {
        "records": len(collection.runs),
        "read_again": again.read,
        "tables": len(tables),
        "megabytes": round(size / 1e6, 1),
        "seconds": seconds,
        "processor_seconds": processor,
        "goals": GOALS,
    }
    print(json.dumps(measured, indent=1))
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
