"""Runs jobs in pools, without torch: ``python -m tests.unit.sweep.pool_jobs``."""

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from focusing.clock import running_seconds
from focusing.sweep.jobs import Job, Outcome, number_jobs
from focusing.sweep.local import make_slots
from focusing.sweep.pool import Notify, Pool


def execute(job: Job, notify_start: Notify) -> Outcome:
    [action] = job.overrides
    print(f"hello from {action}")
    if action == "die":
        notify_start()
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "slow":
        time.sleep(0.4)  # longer than the pool waits between two ticks
    if action == "leave":
        os._exit(3)
    if action == "wait":
        child = subprocess.Popen(["sleep", "60"])
        Path("waiting").write_text(f"{os.getpid()} {child.pid}")
        start, running_start = time.perf_counter(), running_seconds()
        try:
            time.sleep(60)
        except SystemExit:
            paused = time.perf_counter() - start - (running_seconds() - running_start)
            Path("saved").write_text(str(paused))
            raise
        finally:
            child.kill()
    if action == "grow":
        globals()["leak"] = bytearray(os.urandom(1)) * 50_000_000
    variables = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
    return Outcome("done", error=json.dumps([os.getpid(), *map(os.environ.get, variables)]))


def run_pool(options: dict[str, Any], jobs: list[str]) -> dict[str, Any]:
    limits = options.pop("jobs", 100), options.pop("growth_mb", 1000)
    printed: list[str] = []
    outcomes, processes = {}, [0]
    started: list[int] = []
    slots, on_start = make_slots(**options), lambda job: started.append(job.index)
    with Pool(slots, execute, printed.append, *limits, Path("pause"), on_start) as pool:
        numbered = iter(number_jobs([[job] for job in jobs]))
        for job, outcome in pool.run(numbered, lambda: processes.append(len(active_children()))):
            outcomes[job.index] = (outcome.status, outcome.error)
    files = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc").exists() else 0
    ordered = [outcomes[index] for index in range(len(jobs))]
    return {
        "outcomes": ordered,
        "printed": printed,
        "files": files,
        "most": max(processes),
        "started": started,
    }


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(143))
    print(json.dumps([run_pool(options, jobs) for options, jobs in json.loads(sys.argv[1])]))
