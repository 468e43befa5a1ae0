"""``focusing experiments``: lists the experiments, their place in the paper and their cost.

Costs are estimated from a few training steps of each network on this machine.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hydra import compose
from hydra.types import RunMode
from rich.console import Console
from rich.table import Table

from focusing.compose import check_config, config_dir
from focusing.data.splits import read_split
from focusing.errors import UserError, suggest
from focusing.sweep.expansion import expand_parts, hydra_context

Overrides = tuple[str, ...]

COST_NEUTRAL_OPTIONS = ("seed", "data.fold", "optim.lr_mu", "optim.sigma_l2", "sweep.trial")
"""Options that do not change the cost of a run."""
UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0))
SAMPLES = {
    "mnist": (60_000, 10_000),
    "clt": (60_000, 10_000),
    "shifted": (60_000, 10_000),
    "cifar10": (50_000, 10_000),
    "fashion": (60_000, 10_000),
    "lfw": (2267, 756),
    "fsdd": (1250, 1250),
    "multi_domain": (2250, 2000),
    "catsdogs": (19_000, 6000),
    "boston": (404, 102),
    "reuters": (8982, 2246),
    "dna": (2000, 1186),
    "imdb": (25_000, 25_000),
}
"""Number of training and test samples of each data set, in its default split."""
RANDOM_TEST_SHARE = {"dna": 0.2}
"""Default test shares of random splits, where they differ from the split above."""
RUN_SECONDS, EPOCH_SECONDS = 1.0, 0.03
"""Overhead per run and per epoch: reading, scoring and writing."""
PROBE_BATCH, SLOW_SECONDS = 4, 0.5
"""Batch size of a first probe; if it takes longer than this, no whole batch is measured."""


@dataclass(frozen=True)
class Experiment:
    """An experiment in conf/experiment/.

    Attributes:
        name: of its file, without the suffix.
        paper: the table, figure or section of the paper that it reproduces.
        about: what it does, in a few words.
    """

    name: str
    paper: str
    about: str


def experiments() -> dict[str, Experiment]:
    """Read all experiments by name. Their files begin with ``# <place in paper>: <what>``."""
    files = sorted((config_dir() / "experiment").glob("*.yaml"))
    return {path.stem: _read_experiment(path) for path in files}


def _read_experiment(path: Path) -> Experiment:
    comment = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            comment.append(line.removeprefix("#").strip())
    paper, _, about = " ".join(comment).partition(": ")
    return Experiment(path.stem, paper, re.split(r"(?<=[.?])\s", about)[0])


def find_experiment(name: str) -> Experiment:
    """Look an experiment up by name."""
    known = experiments()
    if name in known:
        return known[name]
    raise UserError(f"experiment={name} does not exist{suggest(name, known, cutoff=0.4)}")


def expand_command(overrides: Sequence[str]) -> list[Overrides]:
    """Expand a command into the command lines of its runs, in the order of the sweeper."""
    with hydra_context() as context:
        hydra = context.config_loader.load_configuration(
            "train", list(overrides), run_mode=RunMode.MULTIRUN
        ).hydra
        sweeper = hydra.sweeper if hydra.mode == RunMode.MULTIRUN else {}
        jobs = expand_parts(context, sweeper.get("params"), sweeper.get("parts"), overrides)
        return [job.overrides for job in jobs]


def distinct_configs(runs: Sequence[Overrides]) -> list[tuple[dict[str, Any], int]]:
    """Return the configs of runs, each with the number of runs that cost the same."""

    def matters(override: str) -> bool:
        return override.lstrip("+").partition("=")[0] not in COST_NEUTRAL_OPTIONS

    counts = Counter(tuple(filter(matters, run)) for run in runs)
    with hydra_context():
        return [(check_config(compose("train", list(run))), count) for run, count in counts.items()]


def list_experiments(args: argparse.Namespace) -> None:
    """Print a table of experiments.

    Args:
        args: ``words`` holds names (none: all experiments) and overrides such as ``size=quick``;
            ``fresh`` discards earlier measurements.
    """
    overrides = [word for word in args.words if "=" in word]
    names = [word for word in args.words if "=" not in word]
    chosen = [find_experiment(name) for name in names] or list(experiments().values())
    if args.fresh:
        cache_path().unlink(missing_ok=True)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("experiment", "paper", "what", "runs", "time here"):
        table.add_column(title, justify="right" if title in ("runs", "time here") else "left")
    console, total = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 140), 0.0
    with Console(stderr=True).status("") as status:  # measuring takes seconds per network
        for experiment in chosen:
            status.update(f"measuring {experiment.name}")
            runs, seconds = estimate_cost((f"experiment={experiment.name}", *overrides))
            total += seconds
            row = (experiment.name, experiment.paper, experiment.about)
            table.add_row(*row, str(runs), duration(seconds))
    console.print(table)
    console.print(
        f"\nIn all {duration(total)}, one run after the other, estimated from a few steps of each "
        "network. hydra/launcher=local runs several at once."
    )


def duration(seconds: float) -> str:
    """Format a time for people: 40 s, 12 min, 3.5 h, 21 d."""
    for name, length in UNITS:
        if seconds >= 2 * length:
            number = seconds / length
            digits = 1 if number < 10 and name != "min" else 0
            return f"{number:.{digits}f} {name}"
    return f"{seconds:.0f} s"


def estimate_cost(command: Overrides) -> tuple[int, float]:
    """Return the number of runs of a command, and the seconds they take one after the other."""
    runs = expand_command(command)
    [(config, _)] = distinct_configs([command])
    if config["sweep"]["stacked"]:
        return len(runs), stacked_seconds(config)
    configs = distinct_configs(runs)
    return len(runs), sum(n * run_seconds(config, *cached_speed(config)) for config, n in configs)


def run_seconds(config: Mapping[str, Any], step: float, sample: float) -> float:
    """Return the seconds of a run, given those of a training step and of one test sample."""
    train, test = sample_counts(config["data"])
    held_out = round(train * config["protocol"]["holdout"])
    steps = math.ceil((train - held_out) / config["optim"]["batch_size"])
    steps = min(steps, config["trainer"]["limit_batches"] or steps)
    epoch = EPOCH_SECONDS + steps * step + (held_out + test) * sample
    return RUN_SECONDS + float(config["trainer"]["max_epochs"] * epoch)


def sample_counts(data: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of training and test samples of a data config."""
    if "split" not in data:
        test = round(data["n_samples"] * data["test_share"])
        return data["n_samples"] - test, test
    train, test = SAMPLES[data["name"]]
    kind, folds = read_split(data["split"])
    total = train + test
    share = data["test_share"] or RANDOM_TEST_SHARE.get(data["name"])
    if kind == "random" and share:
        test = math.ceil(total * share)
    elif kind == "kfold":
        test = total // folds
    train = total - test
    return min(train, data["limit_train"] or train), min(test, data["limit_test"] or test)


def cached_speed(config: Mapping[str, Any]) -> tuple[float, float]:
    """Return the seconds of a training step and of one test sample, measured once per machine."""
    optim = config["optim"]
    data = {k: v for k, v in config["data"].items() if k not in ("fold", "split_seed", "fake")}
    key = [config["model"], data, optim["batch_size"], optim["name"], _uses_gpu(config)]
    step, sample = cached(key, lambda: measure_speed(config))
    return step, sample


def cached(key: Any, measure: Callable[[], Any]) -> Any:
    """Return the cached measurement of a key for this machine and version, or measure it now."""
    import torch

    from focusing import __version__

    machine = [platform.node(), os.cpu_count(), torch.get_num_threads(), torch.__version__]
    name = json.dumps([__version__, machine, key], sort_keys=True)
    path = cache_path()
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing or truncated
        known = {}
    if name not in known:
        known[name] = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known, indent=0), encoding="utf-8")
    return known[name]


def cache_path() -> Path:
    """Return the file of measured speeds in the user's cache folder."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("focusing")) / "speeds.json"


def _uses_gpu(config: Mapping[str, Any]) -> bool:
    import torch

    return config["trainer"]["accelerator"] in ("auto", "gpu") and torch.cuda.is_available()


def measure_speed(config: Mapping[str, Any]) -> tuple[float, float]:
    """Measure :func:`cached_speed` with the real network and batch size, on fake data."""
    import torch

    from focusing.callbacks.throughput import clock
    from focusing.callbacks.timing import Action, training_step
    from focusing.config import Optim
    from focusing.data import Batches, Split
    from focusing.training.trainer import build_net, load_data

    fake = {**config["data"], "fake": True, "limit_train": None, "limit_test": None}
    data = load_data({**config, "data": fake})
    device = torch.device("cuda" if _uses_gpu(config) else "cpu")
    net = build_net(config, data, pretrained=False).to(device)  # the weights do not matter
    batches = Batches(data.train, 1, device=device, prepare=data.prepare)
    generator, augment = torch.Generator().manual_seed(0), data.augment

    def batch(size: int) -> Split:
        return batches.take(torch.arange(size) % len(data.train.targets))

    def step(size: int) -> Action:
        inputs, targets = batch(size)
        train = training_step(net.train(), Optim(**config["optim"]), Split(inputs, targets))
        return train if augment is None else lambda: (augment(inputs, generator), train())

    def evaluation(size: int) -> Action:
        inputs, _ = batch(size)
        return torch.no_grad()(lambda: net.eval()(inputs))

    def time_of(act: Action) -> float:
        start = clock(device)
        act()
        return clock(device) - start

    def seconds(action: Callable[[int], Action], size: int) -> float:
        """Time a batch; if that takes long, extrapolate from two small ones."""
        small = action(min(PROBE_BATCH, size))
        if time_of(small) < SLOW_SECONDS:
            whole = action(size)
            return min(time_of(whole) for _ in range(3))
        one, two = time_of(small), time_of(action(min(2 * PROBE_BATCH, size)))
        return one + max(0.0, two - one) / PROBE_BATCH * (size - PROBE_BATCH)

    size = min(config["optim"]["batch_size"], sample_counts(config["data"])[0])
    return seconds(step, size), seconds(evaluation, 256) / 256


def stacked_seconds(config: dict[str, Any]) -> float:
    """Estimate the seconds of all trials of ``experiment=table1``, one group after the other.

    A cheap, a middling and a costly group are trained to calibrate ``estimate_seconds``.
    """
    import torch

    from focusing.experiments.stack_records import estimate_seconds, group_trials, train_group
    from focusing.experiments.table1 import StackedTrials, one_thread

    pairs, cpu = list(StackedTrials(config, {}).pairs.values()), torch.device("cpu")
    stacks = sorted(group_trials(pairs, cpu), key=estimate_seconds)

    def measure() -> float:
        """Return the ratio of measured to estimated seconds."""
        step = max(1, len(stacks) // 3)
        some = copy.deepcopy(stacks[step // 2 :: step])
        with TemporaryDirectory() as folder, one_thread():
            for run in (run for group in some for pair in group for run in pair):
                run["force"], run["paths"]["output_dir"] = True, folder
            train_group(some[0], cpu)  # warm up
            began = time.perf_counter()
            for group in some:
                train_group(group, cpu)
            return (time.perf_counter() - began) / sum(map(estimate_seconds, some))

    key = ["table1", config["variant"], config["seed"], config["trainer"]["max_epochs"]]
    return float(cached(key, measure)) * sum(map(estimate_seconds, stacks))
