"""Table 1: a dense and a focused network on each of many random data sets, trained in stacks."""

from __future__ import annotations

import copy
import ctypes
import multiprocessing
import os
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.console import Console

from focusing.compose import check, prepare_hydra
from focusing.config import SCHEMA_TARGETS, FociOptim, Optim, group_schemas
from focusing.errors import UserError
from focusing.experiments.stack_records import (
    DTYPES,
    Group,
    Pair,
    groups,
    record_failures,
    record_if_any,
    rough_seconds,
    train_or_record,
)
from focusing.experiments.table1_trials import Trial, command_line_options, draw
from focusing.results.collect import Collection, Run, published, runs_at
from focusing.results.identity import ONLOOKERS, run_folder
from focusing.sweep.clusters import ClusterSweep
from focusing.sweep.jobs import (
    Done,
    Job,
    Outcome,
    Result,
    RunsFailedError,
    number_jobs,
    print_failures,
)
from focusing.sweep.pool import Announce, Limits, Pool, Slot
from focusing.sweep.status import SweepStatus
from focusing.training.trainer import build_trainer

MIN_POOL_SECONDS = 20.0
"""Less work than that is done in this process: starting others would take longer than it saves."""
POLL_SECONDS = 1.0
"""How often to check trials that another process runs."""
FREE_OPTIONS = {
    "optim": ("lr", "lr_mu", "lr_sigma", "momentum", "batch_size", "drop_last", "shuffle", "l2"),
    "model": ("name", "hidden", "mu", "sigma", "train_mu", "train_sigma", "init")
    + ("mu_range", "sigma_range", "grid", "normalizer", "backend", "cutoff", "later_sigma"),
}
"""Options of which a stack takes any value; the others must keep the schema's default."""


def run_stacked(cfg: DictConfig, cluster: ClusterSweep | None = None) -> float | None:
    """Run the trials of a config, those of equal shapes together, and print their table.

    Finished runs are not run again, failed ones only with ``sweep.retry_failed=true``. A kill
    loses the groups that are being trained.

    Args:
        cfg: with ``sweep.stacked=true``.
        cluster: where groups train; None: here.

    Returns:
        The mean score of the focused networks minus that of the dense ones.
    """
    prepare_hydra()
    config = check(cfg)
    check_stackable(config)
    device = torch.device("cuda" if cluster and cluster.gpus else "cpu")
    if cluster is None:
        device = build_trainer(config["trainer"], Path()).strategy.root_device
    fixed = command_line_options(cfg)
    numbers = config["sweep"]["only"] or range(config["sweep"]["trials"])
    trials = [draw(config["seed"], index, config["variant"], fixed) for index in numbers]
    pairs = [pair_of(config, trial, fixed) for trial in trials]
    retry = config["sweep"]["retry_failed"]
    left = [pair for pair in pairs if config["force"] or not _is_finished(pair, retry)]
    begun, errors = {pair.trial for pair in left}, dict[int, str]()
    stderr = Console(stderr=True, soft_wrap=True)
    with SweepStatus(
        console=stderr, total=len(pairs), options=("sweep.trial",), noun="trials"
    ) as status:
        for pair in pairs:
            if pair.trial not in begun:
                _count(status, pair, earlier=True)
        while left:
            status.refresh()
            stacks = sorted(groups(left, device), key=rough_seconds, reverse=True)
            errors |= train_groups(stacks, device, status, cluster)
            left = [pair for pair in left if pair.trial not in errors]
            left = [pair for pair in left if not (config["force"] or _is_finished(pair))]
            if left:
                time.sleep(POLL_SECONDS)
    results = [
        _results(pair, errors.get(pair.trial), earlier=pair.trial not in begun) for pair in pairs
    ]
    if not config["sweep"]["only"]:
        _print_table(pairs)
    failed = [(job, out) for both in results for job, out in both if out.status == "failed"]
    if failed:
        in_a_sweep = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
        if not in_a_sweep:  # which prints them
            print_failures(failed)
        raise RunsFailedError(f"{len(failed)} of {2 * len(pairs)} runs failed", tuple(failed))
    scores = [[out.score for _, out in both if out.score is not None] for both in results]
    gaps = [both[1] - both[0] for both in scores if len(both) == len(Pair._fields)]
    return fmean(gaps) if gaps else None


def check_stackable(config: Mapping[str, Any]) -> None:
    """Raise a UserError that names the first option that a stack does not support."""
    if config["sweep"]["trials"] < 1:
        raise UserError(f"sweep.trials={config['sweep']['trials']} must be at least 1.")
    if config["data"]["name"] != "synthetic":
        raise UserError("sweep.stacked=true trains the trials of Table 1: use data=synthetic.")
    if "mu" not in config["model"]:
        raise UserError(
            f"sweep.stacked=true trains a focused network beside a dense one: use model=focus_s, "
            f"not {config['model']['name']}."
        )
    model, optim = config["model"], config["optim"]
    if optim["name"] != "SGD":
        raise _refusal("optim.name", optim["name"], "SGD")
    for group, schema in (("optim", Optim), ("model", group_schemas()["model"]["focused"])):
        for option in fields(schema):
            factory = option.default_factory
            default: Any = factory() if callable(factory) else option.default
            if option.name in (*FREE_OPTIONS[group], "name") or default is MISSING:
                continue
            if isinstance(default, FociOptim):
                default = vars(default)
            if config[group][option.name] != default:
                raise _refusal(f"{group}.{option.name}", config[group][option.name], str(default))
    if model["normalizer"] == "none":
        raise _refusal("model.normalizer", "none", "l2, sum and mean")
    if len(model["hidden"]) != 1:
        raise _refusal("model.hidden", model["hidden"], "one layer")
    if optim["momentum"] is None:
        raise _refusal("optim.momentum", None, "a number")
    if config["trainer"]["precision"] not in DTYPES:
        raise _refusal("trainer.precision", config["trainer"]["precision"], " or ".join(DTYPES))
    for group, known in (("callbacks", (*ONLOOKERS, "clip")), ("logger", ("csv",))):
        for name, options in config[group].items():
            if name not in known and options is not None:
                raise UserError(f"{group}.{name} needs sweep.stacked=false.")
    if not config["callbacks"].get("clip"):
        raise _refusal("callbacks.clip", None, "callbacks=default")


def _refusal(name: str, value: Any, supported: str) -> UserError:
    return UserError(f"{name}={value} needs sweep.stacked=false; a stack knows {supported} only.")


def pair_of(config: dict[str, Any], trial: Trial, fixed: Container[str] = ()) -> Pair:
    """The configs of a trial's runs: that of the sweep with the trial, except for fixed options."""
    focused = copy.deepcopy(config)
    focused["sweep"]["only"] = None
    for name, value in trial.items():
        if name not in fixed:
            group, _, option = name.partition(".")
            focused[group][option] = value
    dense = copy.deepcopy(focused)
    shared = {option.name for option in fields(group_schemas()["model"]["dense"])}
    dense["model"] = {name: value for name, value in dense["model"].items() if name in shared}
    dense["model"] |= {"_target_": SCHEMA_TARGETS["model"]["dense"], "name": "dense"}
    return Pair(dense, focused)


def train_groups(
    stacks: Sequence[Group],
    device: torch.device,
    status: SweepStatus,
    cluster: ClusterSweep | None = None,
    *,
    again: bool = True,
) -> dict[int, str]:
    """Train all groups in this order, in a pool of processes or as jobs of a cluster.

    Args:
        stacks: the groups.
        device: where they train.
        status: of the trials.
        cluster: where to; None: here.
        again: try the trials of a group whose process died once more, one by one.

    Returns:
        The errors of trials that could not be trained, by their numbers.
    """
    errors: dict[int, str] = {}
    crashed: list[Group] = []

    def done(job: Job, outcome: Outcome) -> None:
        group, failed = stacks[job.index], {run.index: str(out.error) for run, out in outcome.runs}
        if outcome.crashed and again:
            crashed.extend([pair] for pair in group)
            return
        if outcome.crashed:
            failed = record_failures(group, str(outcome.error))
        elif outcome.status == "failed" and not outcome.runs:
            failed = {pair.trial: str(outcome.error) for pair in group}
        errors.update(failed)
        for pair in group:
            _count(status, pair, failed.get(pair.trial))
        status.refresh()

    if cluster is None:
        _train_here(stacks, device, status, done, again=again)
    else:
        common = HydraConfig.get().overrides.task
        only = (",".join(str(pair.trial) for pair in group) for group in stacks)
        words = [(*common, f"sweep.only=[{numbers}]") for numbers in only]
        cluster.run(iter(number_jobs(words)), status, done)
    if crashed:
        errors |= train_groups(crashed, device, status, cluster, again=False)
    return errors


def _train_here(
    stacks: Sequence[Group], device: torch.device, status: SweepStatus, done: Done, *, again: bool
) -> None:
    """Train groups on this machine; on a CPU in as many processes as torch has threads.

    Small steps do not divide, so every process has one thread. What has killed a process before
    gets one to itself.
    """

    def train(job: Job) -> Outcome:
        failed = train_or_record(stacks[job.index], device)
        runs = [(Job(trial), Outcome("failed", error=error)) for trial, error in failed.items()]
        return Outcome("done", runs=tuple(runs))

    def execute(job: Job, announce: Announce) -> Outcome:
        torch.set_num_threads(1)
        _keep_memory()
        return train(job)

    jobs = map(Job, range(len(stacks)))
    workers = min(torch.get_num_threads() if again and device.type == "cpu" else 1, len(stacks))
    pays = workers > 1 and sum(map(rough_seconds, stacks)) >= MIN_POOL_SECONDS
    forks = hasattr(os, "fork") and not multiprocessing.current_process().daemon
    if forks and (pays or not again):
        limits = Limits(jobs=len(stacks), growth_mb=1000)
        with Pool([Slot("", 1)] * workers, execute, limits, status.print) as pool:
            for job, outcome in pool.run(jobs, status.refresh):
                done(job, outcome)
    else:
        with one_thread():
            for job in jobs:
                done(job, train(job))


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _keep_memory() -> None:
    """Tell glibc to keep freed memory: the system would zero it again for the next step."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-1, 2**30)  # M_TRIM_THRESHOLD
        mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, the largest that glibc takes


def _is_finished(pair: Pair, retry_failed: bool = False) -> bool:
    """Whether there is nothing to run for a trial."""
    final = ("done",) if retry_failed else ("done", "failed")
    return all(record_if_any(config).get("status") in final for config in pair)


def _results(pair: Pair, error: str | None = None, *, earlier: bool = False) -> list[Result]:
    """What became of the runs of a trial; ``error`` is that of a trial that may have no records."""
    results = []
    for config in pair:
        record = record_if_any(config)
        if record or error:
            names = (f"sweep.trial={pair.trial}", f"model={config['model']['name']}")
            done = record.get("status") == "done"
            score = float(record["scores"][config["protocol"]["name"]]["value"]) if done else None
            outcome = Outcome(
                "done" if done else "failed",
                earlier,
                run_dir=str(run_folder(config)),
                score=score,
                error=None if done else record.get("error") or error,
            )
            results.append((Job(pair.trial, names), outcome))
    return results


def _count(
    status: SweepStatus, pair: Pair, error: str | None = None, *, earlier: bool = False
) -> None:
    """Show what became of a trial, unless another process has it."""
    outcomes = [outcome for _, outcome in _results(pair, error)]
    if len(outcomes) == len(pair):
        error = error or outcomes[0].error or outcomes[1].error
        outcome = Outcome("failed" if error else "done", earlier, error=error)
        status.add(Job(pair.trial, (f"sweep.trial={pair.trial}",)), outcome)


def _print_table(pairs: Sequence[Pair]) -> None:
    """Print the table of the report for these trials."""
    from focusing.reports.tables.trial_tables import trial_tables  # pandas and scipy take a second
    from focusing.reports.terminal import table_lines

    runs: list[Run] = []
    for config in (config for pair in pairs for config in pair):
        archived = published(config)
        runs += runs_at([run_folder(config)]) or ([archived] if archived else [])
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    for table in trial_tables(Collection(tuple(runs))):
        console.print(*table_lines(table), sep="\n")
