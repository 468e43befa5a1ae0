"""Where the jobs of a sweep on one machine run: shares of its GPUs or of its processors."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from focusing.errors import UserError

THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Slot:
    """A place for one job at a time.

    Attributes:
        name: for people.
        gpu: what CUDA_VISIBLE_DEVICES is set to; empty: none.
        threads: of the processor.
    """

    name: str
    gpu: str
    threads: int

    def occupy(self) -> None:
        """Limit this process to the slot; before torch is imported."""
        os.environ["CUDA_VISIBLE_DEVICES"] = self.gpu
        for each in THREAD_COUNTS:
            os.environ[each] = str(self.threads)


def make_slots(
    workers: int | None,
    gpus: int | str | Sequence[int],
    per_gpu: int,
    threads: int | None,
    jobs: int | None = None,
) -> list[Slot]:
    """The slots of this machine.

    Args:
        workers: their number without GPUs; None: one per processor.
        gpus: 0, a number, ``"all"``, or a list of indices of those that are visible.
        per_gpu: jobs that share a GPU.
        threads: of each job; None: an equal share of the processors.
        jobs: that there are; no more slots than that.
    """
    devices = _devices(gpus)
    if devices and per_gpu < 1:
        raise UserError(f"hydra.launcher.per_gpu={per_gpu} must be at least 1.")
    if devices and workers is not None:
        raise UserError("hydra.launcher.workers is for a sweep without GPUs: use per_gpu.")
    cpus = processors()
    count = len(devices) * per_gpu if devices else (cpus if workers is None else workers)
    if count < 1:
        raise UserError(f"hydra.launcher.workers={workers} must be at least 1.")
    count = count if jobs is None else max(1, min(count, jobs))
    share = max(1, cpus // count) if threads is None else threads
    if share < 1:
        raise UserError(f"hydra.launcher.threads={threads} must be at least 1.")
    if devices:  # first one job on each, then the second ones
        names = [device for _ in range(per_gpu) for device in devices][:count]
        return [Slot(f"gpu {name}", name, share) for name in names]
    return [Slot(f"cpu {index}", "", share) for index in range(count)]


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _devices(gpus: int | str | Sequence[int]) -> list[str]:
    """What CUDA_VISIBLE_DEVICES is set to for each GPU that is asked for."""
    if gpus == 0 and not isinstance(gpus, bool):
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        here, why = _installed(), "nvidia-smi finds {} on this machine"
    else:
        here = [each.strip() for each in given.split(",") if each.strip()]
        why = f"CUDA_VISIBLE_DEVICES={given} names {{}}"
    asked = f"hydra.launcher.gpus={gpus}"
    if gpus == "all":
        places = list(range(len(here)))
    elif isinstance(gpus, int) and not isinstance(gpus, bool) and gpus > 0:
        places = list(range(gpus))
    elif isinstance(gpus, Sequence) and not isinstance(gpus, str):
        places = list(gpus)
        if not places or len(set(places)) < len(places) or not all(map(_is_index, places)):
            raise UserError(f"{asked} must be different numbers from 0, as in [0,3].")
    else:
        raise UserError(f"{asked} is neither a number, a list nor all.")
    if not here or max(places) >= len(here):
        raise UserError(f"{asked}: {why.format(len(here) or 'none')}.")
    return [here[place] for place in places]


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _installed() -> list[str]:
    # Not by torch: a process that has started CUDA cannot be forked.
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    done = subprocess.run([command, "-L"], capture_output=True, text=True)  # noqa: S603 - fixed
    lines = [line for line in done.stdout.splitlines() if line.startswith("GPU ")]
    return [str(index) for index in range(len(lines))]
