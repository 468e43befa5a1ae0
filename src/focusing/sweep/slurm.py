"""Sweeps on a SLURM cluster, submitted with submitit (``hydra/launcher=slurm``)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from focusing.config import AtLeastOne, Count
from focusing.errors import UserError
from focusing.sweep.allocation import Allocation
from focusing.sweep.clusters import ClusterSweep, State, SubmittedJob, cause_of
from focusing.sweep.local import cpu_count
from focusing.sweep.pool import THREAD_COUNTS
from focusing.sweep.task import JobRunner

COMMON_OPTIONS = ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb")
"""Options of all submitit executors; the others are SLURM's."""
MIN_RUN_SECONDS = 120
"""Least time between the start of a job and the warning that its time is up."""
QUERY_TIMEOUT = 60


class Slurm(ClusterSweep):
    """Submits jobs with submitit, and queries their states with squeue and sacct.

    Args:
        runner, runs_per_job, per_gpu: as in :class:`ClusterSweep`.
        cluster: ``"slurm"``, or ``"local"`` for processes on this machine.
        cpus_per_task, gpus_per_node: per job.
        more: further options of the executor. It is null in the config file: a dictionary there
            would accept no new keys.
        **options: of the executor.
    """

    max_batch = 1000  # clusters commonly limit the size of a job array to this

    def __init__(
        self,
        runner: JobRunner,
        *,
        cluster: Literal["slurm", "local"],
        runs_per_job: AtLeastOne,
        per_gpu: AtLeastOne,
        cpus_per_task: AtLeastOne,
        gpus_per_node: Count | None,
        more: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.cluster = cluster
        self.poll_seconds = 1.0 if cluster == "slurm" else 0.2
        super().__init__(runner, runs_per_job, cpus_per_task, gpus_per_node, per_gpu)
        options |= {"cpus_per_task": cpus_per_task, "gpus_per_node": gpus_per_node, **(more or {})}
        options = {name: value for name, value in options.items() if value is not None}
        minutes, delay = options["timeout_min"], options["signal_delay_s"]
        if minutes * 60 < delay + MIN_RUN_SECONDS:
            raise UserError(
                f"hydra.launcher.timeout_min={minutes} is too short: a job is warned {delay} s "
                "before its end (signal_delay_s). Use at least "
                f"{-(-(delay + MIN_RUN_SECONDS) // 60)} minutes."
            )
        try:
            import submitit
        except ImportError:
            raise UserError("hydra/launcher=slurm needs: pip install 'focusing[slurm]'") from None
        os.environ.update(dict.fromkeys(THREAD_COUNTS, "1"))  # for jobs; runs set their own
        self._partition = options.get("partition")
        self._parallel = options["array_parallelism"]
        timeouts = options.pop("max_num_timeout")
        named = {k if k in COMMON_OPTIONS else f"slurm_{k}": value for k, value in options.items()}
        try:
            self._executor = submitit.AutoExecutor(
                folder=self._folder, cluster=cluster, slurm_max_num_timeout=timeouts
            )
            self._executor.update_parameters(name="focusing", **named)
        except (RuntimeError, NameError, AssertionError, ValueError) as error:  # e.g. no sbatch
            first = str(error).splitlines()[0]
            raise UserError(f"hydra/launcher=slurm: {first}") from None

    def _capacity(self, search: bool) -> int:
        if self.cluster == "local":  # this machine gets no more jobs than fit
            return max(1, cpu_count() // self._cpus)
        if not search:
            return 100_000  # a queue may hold all jobs
        where = ["-p", self._partition] if self._partition else []
        answer = _query("sinfo", "-h", "-o", "%D|%c|%G", *where)
        fit = sum(_jobs_that_fit(line, self._cpus, self.gpus) for line in answer or ())
        return max(1, min(fit, int(self._parallel)))

    def _submit(self, allocations: Sequence[Allocation]) -> Sequence[Any]:
        try:
            with _deferred_signals():  # or a signal could leave jobs in the queue unnoticed
                return self._executor.submit_array(list(allocations))
        except Exception as error:  # sbatch refuses an option, for example
            raise UserError(f"hydra/launcher=slurm: {cause_of(error)}") from None

    def _query_states(self, submitted: Sequence[SubmittedJob]) -> Sequence[State]:
        if self.cluster == "local":
            return [self._explain(job.handle, self._local_state(job.handle)) for job in submitted]
        queue = _query("squeue", "--me", "-h", "-r", "-t", "all", "-o", "%i|%T|%r")
        if queue is None:
            return [State("UNKNOWN", "squeue does not answer") for _ in submitted]
        states = {name: State(*rest) for name, *rest in (line.split("|", 2) for line in queue)}
        missing = [job.handle.job_id for job in submitted if job.handle.job_id not in states]
        if missing:  # squeue forgets jobs minutes after their end; sacct does not
            words = ("-X", "-n", "-P", "-o", "JobID,State", "-j", ",".join(missing))
            for line in _query("sacct", *words) or ():
                name, state = line.split("|", 1)
                states[name] = State(state.partition(" ")[0])  # CANCELLED by 1000
        gone = State("GONE", "SLURM no longer knows it")
        return [self._explain(j.handle, states.get(j.handle.job_id, gone)) for j in submitted]

    def _local_state(self, handle: Any) -> State:
        if handle.state == "RUNNING":
            return State("RUNNING")
        complete = handle.paths.result_pickle.exists() and handle.exception() is None
        return State("COMPLETED" if complete else "FAILED")

    def _explain(self, handle: Any, state: State) -> State:
        """Add the error that a failed job has left, if any, to its state."""
        if state.name == "FAILED" and handle.paths.result_pickle.exists():
            error = handle.exception()
            return State(state.name, cause_of(error) if error else "")
        return state

    def _log(self, submitted: SubmittedJob) -> str:
        return str(submitted.handle.paths.stderr)

    def _cancel(self, handles: Sequence[Any]) -> None:
        # Jobs stay in the queue. The same command later waits for those that run by then.
        names = sorted({str(handle.job_id).partition("_")[0] for handle in handles})
        if names:
            end = f"scancel {' '.join(names)}" if self.cluster == "slurm" else "kill"
            listed = ", ".join(names)
            print(f"The jobs stay in the queue of {self.cluster}: {listed}; {end} ends them.")


def _query(*command: str) -> list[str] | None:
    """Return the lines that a SLURM command prints, or None if it fails."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_TIMEOUT)  # noqa: S603 - fixed
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.splitlines() if answer.returncode == 0 else None


def _jobs_that_fit(line: str, cpus_per_job: int, gpus_per_job: float) -> int:
    """Return how many jobs fit on the nodes of a line of sinfo: ``4|64+|gpu:a100:8(S:0-1)``."""
    nodes, cpus, gres = line.split("|")
    fit = int(cpus.rstrip("+")) // cpus_per_job
    if gpus_per_job:
        gpus = sum(int(count) for count in re.findall(r"gpu(?::\w+)?:(\d+)", gres))
        fit = min(fit, int(gpus // gpus_per_job))
    return int(nodes) * fit


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM until the end of the block."""
    received: list[int] = []
    before = {
        signum: signal.signal(signum, lambda signum, frame: received.append(signum))
        for signum in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        if received:
            signal.raise_signal(received[0])
