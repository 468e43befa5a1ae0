"""One job of a cluster: runs a share of a sweep in a local pool.

All jobs of a sweep read the config and the task from one shared file; a job itself carries only
the overrides of its runs. It appends starts and outcomes to a journal beside that file, and the
sweep reads the journal. So a job that the cluster kills still leaves its outcomes behind. Imports
are late, because no signal can be handled until this module is loaded.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from focusing.sweep.jobs import Job, Outcome

if TYPE_CHECKING:
    from hydra.types import HydraContext
    from omegaconf import DictConfig

    from focusing.sweep.task import SweepTask

SHARED_FILE = "sweep.pkl"
ALL_STOPPED = -1
"""Index of a journal line which says that no run is training any more."""
JOURNAL_LINE = TypeAdapter(tuple[int, Outcome | None])


class Journal:
    """A file with one line for every start and every outcome of a run.

    Args:
        path: the file. One process writes it, any number may read it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def write(self, index: int, outcome: Outcome | None = None) -> None:
        """Append the start of a run, or its outcome."""
        with self._path.open("ab", buffering=0) as file:
            file.write(JOURNAL_LINE.dump_json((index, outcome)) + b"\n")

    def read(self) -> Iterator[tuple[int, Outcome | None]]:
        """Yield the complete lines that were added since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return
        complete = content[: content.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            with suppress(ValueError):  # its writer was killed; the run's record has the outcome
                yield JOURNAL_LINE.validate_json(line)


@dataclass
class Workload:
    """What all jobs of a sweep share.

    Attributes:
        context, config, task: as in :class:`~focusing.sweep.task.JobRunner`.
        resources: ``cpus``, ``gpus`` and ``per_gpu`` of a job.
        working_dir: of the sweep; jobs start elsewhere.
        trusted: targets in configs that the user trusts.
        singletons: Hydra's global state.
    """

    context: HydraContext
    config: DictConfig
    task: SweepTask
    resources: dict[str, int]
    working_dir: Path
    trusted: frozenset[str]
    singletons: Any

    def run(self, jobs: Sequence[Job], journal: Journal) -> None:
        """Run jobs in a pool with one slot for each GPU or processor of the allocation."""
        from hydra.core.singleton import Singleton
        from hydra.core.utils import setup_globals

        from focusing.instantiate import trust
        from focusing.sweep.local import LocalSweep
        from focusing.sweep.status import SweepStatus
        from focusing.sweep.task import JobRunner

        setup_globals()
        Singleton.set_state(self.singletons)
        os.environ.setdefault("FOCUSING_LOG_EPOCHS", "10")  # seconds between two lines of a run
        os.chdir(self.working_dir)
        trust(self.trusted)
        sweep = LocalSweep(JobRunner(self.context, self.config, self.task), **self.resources)
        sweep.on_start = lambda job: journal.write(job.index)
        status = SweepStatus([job.overrides for job in jobs])

        def on_done(job: Job, outcome: Outcome) -> None:
            journal.write(job.index, outcome)
            status.add(job, outcome)

        with status:
            sweep.run(iter(jobs), status, on_done)


@dataclass(frozen=True)
class Allocation:
    """One job of a cluster; submitit or Ray calls it on the machine where it runs.

    Attributes:
        folder: holds the shared file and the journals of the sweep.
        number: of this job in the sweep.
        jobs: its runs.
    """

    folder: Path
    number: int
    jobs: tuple[Job, ...]

    @property
    def journal_path(self) -> Path:
        """The file with the starts and outcomes of the runs."""
        return self.folder / f"{self.number}.jsonl"

    def __call__(self) -> None:
        """Run the jobs that have no outcome in the journal yet."""
        with requeue_on_signal():
            journal = Journal(self.journal_path)
            finished = {index for index, outcome in journal.read() if outcome}
            left = [job for job in self.jobs if job.index not in finished]
            content = (self.folder / SHARED_FILE).read_bytes()
            workload: Workload = pickle.loads(content)  # noqa: S301 - our own sweep wrote it
            try:
                workload.run(left, journal)
            finally:  # all runs have saved: if the next process dies early, none is to blame
                journal.write(ALL_STOPPED)

    def checkpoint(self) -> Any:
        """Return what submitit queues again: this job, which skips the runs in its journal."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@contextmanager
def requeue_on_signal() -> Iterator[None]:
    """Stop at the first signal, and requeue a submitit job that is out of time or preempted.

    SLURM sends USR2 before time is up, and SIGTERM when it preempts or cancels a job. Submitit by
    itself requeues on USR2 only, and at once. Here the pool saves every run first.
    """
    warning = getattr(signal, "SIG" + os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2"))
    requeue: Any = signal.getsignal(warning) if "SUBMITIT_EXECUTOR" in os.environ else None
    received: list[int] = []

    def leave(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        if len(received) == 1:  # a second signal must not interrupt runs that are saving
            raise SystemExit(128 + signal.SIGTERM)

    before = {signum: signal.signal(signum, leave) for signum in (signal.SIGTERM, warning)}
    before[signal.SIGCONT] = signal.signal(signal.SIGCONT, signal.SIG_DFL)  # submitit logs it
    try:
        yield
    except SystemExit:
        if received and callable(requeue) and (received[0] == warning or _is_preempted()):
            # SLURM may forbid it; then the sweep submits the remaining runs again.
            with suppress(subprocess.CalledProcessError):
                requeue(warning, None)
            return
        raise
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _is_preempted() -> bool:
    """Whether SLURM preempts this job and does not cancel it: it still calls the job running."""
    job_id = os.environ.get("SLURM_JOB_ID")
    if job_id is None:
        return False
    command = ["scontrol", "show", "job", "--oneliner", job_id]
    shown = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - fixed
    return "JobState=RUNNING" in shown.stdout


def main() -> None:
    """Run the pickled allocation on stdin, and stop when stdin closes: then its owner is gone."""
    description = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))

    def stop_with_owner() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_with_owner, daemon=True).start()
    pickle.loads(description)()  # noqa: S301 - from the Ray task that started this process


if __name__ == "__main__":
    main()
