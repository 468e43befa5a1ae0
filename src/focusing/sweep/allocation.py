"""What a job of a cluster does: some runs of a sweep, in a local pool inside its allocation.

A file that all jobs of a sweep share holds the config and the task; a job knows the overrides of
its runs. It writes a journal of them beside that file, which the sweep reads: a job that the
cluster ends, at any moment, leaves behind what is done. Imports are late: this module is loaded
before anything can answer a signal.
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
NO_RUN = -1
"""The index of a line that says that no run is in training any longer."""
LINE = TypeAdapter(tuple[int, Outcome | None])
"""Of a journal."""


class Journal:
    """A file with a line for every run that begins or is over.

    Args:
        path: the file; only one process writes it, any may read it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def write(self, index: int, outcome: Outcome | None = None) -> None:
        """Note that a run begins, or what became of it."""
        with self._path.open("ab", buffering=0) as file:
            file.write(LINE.dump_json((index, outcome)) + b"\n")

    def read(self) -> Iterator[tuple[int, Outcome | None]]:
        """The lines since the last call, without one that is not complete."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return
        complete = content[: content.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            with suppress(ValueError):  # its writer was killed: the run's own record tells the rest
                yield LINE.validate_json(line)


@dataclass
class Workload:
    """What the jobs of a sweep have in common.

    Attributes:
        context, config, task: as of any sweep.
        places: ``cpus``, ``gpus`` and ``per_gpu`` of an allocation.
        folder: the working directory of the sweep: jobs start elsewhere.
        trusted: what the user trusts in configs.
        singletons: Hydra's state.
    """

    context: HydraContext
    config: DictConfig
    task: SweepTask
    places: dict[str, int]
    folder: Path
    trusted: frozenset[str]
    singletons: Any

    def run(self, jobs: Sequence[Job], journal: Journal) -> None:
        """Run jobs in a pool with as many slots as the allocation has GPUs or processors."""
        from hydra.core.singleton import Singleton
        from hydra.core.utils import setup_globals

        from focusing.instantiate import trust
        from focusing.sweep.local import LocalSweep
        from focusing.sweep.status import SweepStatus

        setup_globals()
        Singleton.set_state(self.singletons)
        os.environ.setdefault("FOCUSING_LOG_EPOCHS", "10")  # seconds between two lines of a run
        os.chdir(self.folder)
        trust(self.trusted)
        sweep = LocalSweep(self.context, self.config, self.task, **self.places)
        sweep.began = lambda job: journal.write(job.index)
        status = SweepStatus([job.overrides for job in jobs])

        def done(job: Job, outcome: Outcome) -> None:
            journal.write(job.index, outcome)
            status.add(job, outcome)

        with status:
            sweep.run(iter(jobs), status, done)


@dataclass(frozen=True)
class Allocation:
    """One job of a cluster; submitit and Ray call it where it runs.

    Attributes:
        folder: of the sweep; holds the shared file and the journals.
        number: of this job among those of the sweep.
        jobs: the runs.
    """

    folder: Path
    number: int
    jobs: tuple[Job, ...]

    @property
    def journal(self) -> Path:
        """The file that tells what became of the runs."""
        return self.folder / f"{self.number}.jsonl"

    def __call__(self) -> None:
        """Run what the journal does not call over."""
        with requeueing():
            journal = Journal(self.journal)
            over = {index for index, outcome in journal.read() if outcome}
            left = [job for job in self.jobs if job.index not in over]
            content = (self.folder / SHARED_FILE).read_bytes()
            workload: Workload = pickle.loads(content)  # noqa: S301 - our own sweep wrote it
            try:
                workload.run(left, journal)
            finally:  # every run has saved: if the next process dies early, none is to blame
                journal.write(NO_RUN)

    def checkpoint(self) -> Any:
        """What submitit queues again: the same job, whose journal has grown."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@contextmanager
def requeueing() -> Iterator[None]:
    """Stop at the first signal; a submitit job that shall go on later is queued again.

    SLURM warns with USR2 before time is up, and with SIGTERM when it preempts or cancels. Submitit
    queues a job again on USR2 only, wherever training is. Here the pool first saves every run.
    """
    warning = getattr(signal, "SIG" + os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2"))
    requeue: Any = signal.getsignal(warning) if "SUBMITIT_EXECUTOR" in os.environ else None
    received: list[int] = []

    def leave(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        if len(received) == 1:  # a second one must not interrupt runs that save
            raise SystemExit(128 + signal.SIGTERM)

    before = {signum: signal.signal(signum, leave) for signum in (signal.SIGTERM, warning)}
    before[signal.SIGCONT] = signal.signal(signal.SIGCONT, signal.SIG_DFL)  # submitit logs it
    try:
        yield
    except SystemExit:
        if received and callable(requeue) and (received[0] == warning or _is_preempted()):
            with suppress(subprocess.CalledProcessError):  # SLURM may forbid it: then the sweep
                requeue(warning, None)  # submits again what is left
            return
        raise
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _is_preempted() -> bool:
    """Whether SLURM wants this job's place, and not its end: it still calls the job running."""
    job_id = os.environ.get("SLURM_JOB_ID")
    if job_id is None:
        return False
    command = ["scontrol", "show", "job", "--oneliner", job_id]
    shown = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - fixed
    return "JobState=RUNNING" in shown.stdout


def main() -> None:
    """Run the allocation that stdin describes, and stop when stdin ends: its owner is gone."""
    description = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))

    def stop_with_owner() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_with_owner, daemon=True).start()
    pickle.loads(description)()  # noqa: S301 - from the Ray task that started this process


if __name__ == "__main__":
    main()
