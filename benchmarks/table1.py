"""Trials of Table 1 per minute: stacked, and one by one through Lightning.

python benchmarks/table1.py [--trials 750] [--sample 16] [--json benchmarks/table1.json]

Stacked is what ``python train.py experiment=table1`` does, from the draw to the last record. One by
one is what ``sweep.stacked=false`` does, without the time that Hydra takes for each job: a sample
of the same trials, evenly from the cheapest to the dearest, one half before and one half after the
stacked ones. Both may use all cores: stacked in processes, one by one in torch's threads.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from focusing.compose import check_config, compose_config
from focusing.experiments.stack_records import Pair, estimate_seconds, group_trials
from focusing.experiments.table1 import pair_of, run_stacked
from focusing.experiments.table1_trials import draw
from focusing.run import train

GOAL_MINUTES, GOAL_RATIO = 15.0, 10.0


def sweep_config(trials: int, folder: str, *more: str) -> DictConfig:
    """The config of a sweep whose results are thrown away."""
    overrides = [f"sweep.trials={trials}", f"paths.output_dir={folder}", "trainer.accelerator=cpu"]
    return compose_config("experiment=table1", "callbacks.progress=null", *overrides, *more)


def one_by_one(pairs: list[Pair]) -> list[float]:
    """Seconds of each trial."""
    seconds = []
    for pair in pairs:
        start = time.perf_counter()
        for config in pair:
            with contextlib.redirect_stdout(io.StringIO()):
                train(OmegaConf.create(config))
        seconds.append(time.perf_counter() - start)
    return seconds


def measure(trials: int, sample: int) -> dict[str, Any]:
    """Run the trials stacked, and a sample of them one by one."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as alone:
        config = check_config(sweep_config(trials, alone))
        pairs = [pair_of(config, draw(config["seed"], index)) for index in range(trials)]
        pairs.sort(key=lambda pair: estimate_seconds([pair]))
        every = max(1, trials // sample)
        chosen = pairs[every // 2 :: every]
        warm_up, *_ = pairs
        one_by_one([warm_up])
        single = one_by_one(chosen[::2])
        start = time.perf_counter()
        run_stacked(sweep_config(trials, folder))
        stacked = time.perf_counter() - start
        single += one_by_one(chosen[1::2])
        stacks = [len(group) for group in group_trials(pairs, torch.device("cpu"))]
    alone_seconds = sum(single) / len(single) * trials
    return {
        "trials": trials,
        "epochs": config["trainer"]["max_epochs"],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "stacks": len(stacks),
        "largest_stack": max(stacks),
        "stacked": {"seconds": stacked, "trials_per_minute": 60 * trials / stacked},
        "one_by_one": {
            "sampled": len(single),
            "seconds": alone_seconds,
            "trials_per_minute": 60 * trials / alone_seconds,
        },
        "ratio": alone_seconds / stacked,
    }


def main() -> None:
    """Measure, print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=750)
    parser.add_argument("--sample", type=int, default=16, help="trials that run one by one")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    measured = measure(arguments.trials, arguments.sample)
    print(f"{'':12} {'minutes':>8} {'trials per minute':>18}")
    for name in ("stacked", "one_by_one"):
        row = measured[name]
        print(f"{name:12} {row['seconds'] / 60:8.1f} {row['trials_per_minute']:18.1f}")
    whole = measured["stacked"]["seconds"] / 60 * 750 / measured["trials"]
    print(f"ratio {measured['ratio']:.1f} (goal: {GOAL_RATIO:.0f})")
    print(f"750 trials stacked: {whole:.1f} minutes (goal: {GOAL_MINUTES:.0f})")
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":  # processes of the stack import this file
    main()
