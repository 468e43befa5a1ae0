"""Table 1: a dense and a focused network on each of many random data sets, trained in stacks."""

from __future__ import annotations

import copy
import ctypes
import multiprocessing
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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

from focusing.compose import check_config, prepare_hydra
from focusing.config import SCHEMA_TARGETS, FociOptim, Optim, group_schemas
from focusing.errors import UserError
from focusing.experiments.stack_records import (
    DTYPES,
    Group,
    Pair,
    estimate_seconds,
    find_record,
    group_trials,
    record_trial_failure,
    train_or_record_failures,
)
from focusing.experiments.table1_trials import Trial, command_line_options, draw
from focusing.results.collect import Collection, Run, find_published, runs_at
from focusing.results.identity import PASSIVE_CALLBACKS, run_folder
from focusing.sweep.clusters import ClusterSweep
from focusing.sweep.jobs import (
    Job,
    OnDone,
    Outcome,
    Result,
    RunsFailedError,
    number_jobs,
    print_failures,
)
from focusing.sweep.pool import Notify, Pool, Slot
from focusing.sweep.status import SweepStatus
from focusing.sweep.task import Sweep
from focusing.training.trainer import build_trainer

MIN_POOL_SECONDS = 20.0
"""Less work than this is done in this process, because starting others would take longer."""
SUPPORTED_OPTIONS = {
    "optim": ("lr", "lr_mu", "lr_sigma", "momentum", "batch_size", "drop_last", "shuffle", "l2"),
    "model": ("name", "hidden", "mu", "sigma", "train_mu", "train_sigma", "init")
    + ("mu_range", "sigma_range", "grid", "normalizer", "backend", "cutoff", "later_sigma"),
}
"""Options that may have any value in a stack; the others must keep their defaults."""


def run_stacked(cfg: DictConfig, cluster: ClusterSweep | None = None) -> float | None:
    """Train all trials of a config, those of equal shapes together, and print their table.

    Finished runs are skipped; failed ones run again only with ``sweep.retry_failed=true``. If the
    process is killed, the groups that are training are lost.

    Args:
        cfg: with ``sweep.stacked=true``.
        cluster: where groups train; None: on this machine.

    Returns:
        The mean score of the focused networks minus that of the dense ones.
    """
    prepare_hydra()
    config = check_config(cfg)
    check_stackable(config)
    trials = StackedTrials(config, command_line_options(cfg), cluster)
    jobs = list(map(_job, trials.pairs))
    stderr = Console(stderr=True, soft_wrap=True)
    status = SweepStatus([job.overrides for job in jobs], console=stderr, noun="trials")
    results = trials.run_until_finished(iter(jobs), status)
    if not config["sweep"]["only"]:
        _print_table(trials.pairs.values())
    failed = tuple(run for _, outcome in results for run in outcome.runs)
    if failed:
        in_a_sweep = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
        if not in_a_sweep:  # a sweep prints them itself
            print_failures(failed)
        raise RunsFailedError(f"{len(failed)} of {2 * len(jobs)} runs failed", failed)
    return fmean(outcome.score or 0.0 for _, outcome in results)


class StackedTrials(Sweep):
    """A sweep whose jobs are trials: a dense and a focused network each.

    Args:
        config: of the sweep, in plain containers.
        fixed: options that the command line sets.
        cluster: where groups train; None: on this machine.

    Attributes:
        pairs: trial number -> configs of its two runs.
    """

    def __init__(
        self, config: dict[str, Any], fixed: Mapping[str, Any], cluster: ClusterSweep | None = None
    ) -> None:
        self._config, self._cluster = config, cluster
        self._device = torch.device("cuda" if cluster and cluster.gpus else "cpu")
        if cluster is None:
            self._device = build_trainer(config["trainer"], Path()).strategy.root_device
        seed, variant = config["seed"], config["variant"]
        self.pairs = {
            index: pair_of(config, draw(seed, index, variant, fixed), fixed)
            for index in config["sweep"]["only"] or range(config["sweep"]["trials"])
        }

    def run(self, jobs: Iterator[Job], status: SweepStatus, on_done: OnDone) -> None:
        """Train trials in groups, the longest first."""
        final = ("done",) if self._config["sweep"]["retry_failed"] else ("done", "failed")
        left = []
        for job in jobs:
            outcome = outcome_of(self.pairs[job.index], earlier=True)
            if outcome.status in final and not self._config["force"]:
                on_done(job, outcome)
            else:
                left.append(self.pairs[job.index])
        status.refresh()
        stacks = sorted(group_trials(left, self._device), key=estimate_seconds, reverse=True)
        self._train(stacks, status, on_done)

    def _train(
        self, stacks: Sequence[Group], status: SweepStatus, on_done: OnDone, *, retry: bool = True
    ) -> None:
        """Train groups in a pool of processes or as jobs of a cluster.

        With ``retry``, the trials of a group whose process died are tried once more, one by one.
        """
        crashed: list[Group] = []

        def finish(job: Job, outcome: Outcome) -> None:
            group, errors = stacks[job.index], {run.index: out.error for run, out in outcome.runs}
            if outcome.crashed and retry:
                crashed.extend([pair] for pair in group)
                return
            if outcome.status == "failed" and not errors:
                errors = dict.fromkeys((pair.trial for pair in group), outcome.error)
            for pair in group:
                error = errors.get(pair.trial)
                if outcome.crashed:
                    record_trial_failure(pair, str(error))
                on_done(_job(pair.trial), outcome_of(pair, error))
            status.refresh()

        if self._cluster is None:
            self._train_here(stacks, status, finish, retry=retry)
        else:
            common = HydraConfig.get().overrides.task
            only = (",".join(str(pair.trial) for pair in group) for group in stacks)
            words = [(*common, f"sweep.only=[{numbers}]") for numbers in only]
            self._cluster.run(iter(number_jobs(words)), status, finish)
        if crashed:
            self._train(crashed, status, on_done, retry=False)

    def _train_here(
        self, stacks: Sequence[Group], status: SweepStatus, finish: OnDone, *, retry: bool
    ) -> None:
        """Train groups on this machine; on a CPU in as many processes as torch has threads.

        Each process uses one thread, because small steps gain nothing from more. Trials that may
        have killed a process train one at a time in a process of their own.
        """

        def train(job: Job) -> Outcome:
            errors = train_or_record_failures(stacks[job.index], self._device)
            runs = [(Job(trial), Outcome("failed", error=error)) for trial, error in errors.items()]
            return Outcome("done", runs=tuple(runs))

        def execute(job: Job, notify_start: Notify) -> Outcome:
            torch.set_num_threads(1)
            _keep_memory()
            return train(job)

        jobs = map(Job, range(len(stacks)))
        threads = torch.get_num_threads() if retry and self._device.type == "cpu" else 1
        workers = min(threads, len(stacks))
        pays = workers > 1 and sum(map(estimate_seconds, stacks)) >= MIN_POOL_SECONDS
        forks = hasattr(os, "fork") and not multiprocessing.current_process().daemon
        if forks and (pays or not retry):
            slots = [Slot("", 1)] * workers
            with Pool(slots, execute, status.print, len(stacks), growth_mb=1000) as pool:
                for job, outcome in pool.run(jobs, status.refresh):
                    finish(job, outcome)
        else:
            with one_thread():
                for job in jobs:
                    finish(job, train(job))


def _job(trial: int) -> Job:
    return Job(trial, (f"sweep.trial={trial}",))


def outcome_of(pair: Pair, error: str | None = None, *, earlier: bool = False) -> Outcome:
    """Return the outcome of a trial, whose score is the focused one minus the dense one.

    Args:
        pair: its configs.
        error: why it failed, if that may not be recorded.
        earlier: whether this was its outcome before the sweep.
    """
    failed, scores = list[Result](), list[float]()
    for config in pair:
        record, run_dir = find_record(config), str(run_folder(config))
        if record.get("status") == "done":
            scores.append(float(record["scores"][config["protocol"]["name"]]["value"]))
        elif record or error:
            names = (f"sweep.trial={pair.trial}", f"model={config['model']['name']}")
            why = record.get("error") or error
            failed.append((Job(pair.trial, names), Outcome("failed", earlier, run_dir, error=why)))
        else:
            return Outcome("busy", run_dir=run_dir)  # another process runs it
    if failed:
        why = error or failed[0][1].error
        return Outcome("failed", earlier, error=why, runs=tuple(failed))
    return Outcome("done", earlier, score=scores[1] - scores[0])


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
        raise _unsupported("optim.name", optim["name"], "SGD")
    for group, schema in (("optim", Optim), ("model", group_schemas()["model"]["focused"])):
        for option in fields(schema):
            factory = option.default_factory
            default: Any = factory() if callable(factory) else option.default
            if option.name in (*SUPPORTED_OPTIONS[group], "name") or default is MISSING:
                continue
            if isinstance(default, FociOptim):
                default = vars(default)
            if config[group][option.name] != default:
                value = config[group][option.name]
                raise _unsupported(f"{group}.{option.name}", value, str(default))
    if model["normalizer"] == "none":
        raise _unsupported("model.normalizer", "none", "l2, sum and mean")
    if len(model["hidden"]) != 1:
        raise _unsupported("model.hidden", model["hidden"], "one layer")
    if optim["momentum"] is None:
        raise _unsupported("optim.momentum", None, "a number")
    if config["trainer"]["precision"] not in DTYPES:
        raise _unsupported("trainer.precision", config["trainer"]["precision"], " or ".join(DTYPES))
    for group, known in (("callbacks", (*PASSIVE_CALLBACKS, "clip")), ("logger", ("csv",))):
        for name, options in config[group].items():
            if name not in known and options is not None:
                raise UserError(f"{group}.{name} needs sweep.stacked=false.")
    if not config["callbacks"].get("clip"):
        raise _unsupported("callbacks.clip", None, "callbacks=default")


def _unsupported(name: str, value: Any, supported: str) -> UserError:
    return UserError(
        f"{name}={value} needs sweep.stacked=false; a stack supports {supported} only."
    )


def pair_of(config: dict[str, Any], trial: Trial, fixed: Container[str] = ()) -> Pair:
    """Apply a trial, but for fixed options, to the config of a sweep; returns its two configs."""
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


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _keep_memory() -> None:
    """Tell glibc to keep freed memory, which the system would have to zero for the next step."""
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-1, 2**30)  # M_TRIM_THRESHOLD
        mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, the largest that glibc takes


def _print_table(pairs: Iterable[Pair]) -> None:
    """Print the table of the report for these trials."""
    from focusing.reports.tables.trial_tables import trial_tables  # pandas and scipy load slowly
    from focusing.reports.terminal import table_lines

    runs: list[Run] = []
    for config in (config for pair in pairs for config in pair):
        archived = find_published(config)
        runs += runs_at([run_folder(config)]) or ([archived] if archived else [])
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    for table in trial_tables(Collection(tuple(runs))):
        console.print(*table_lines(table), sep="\n")
