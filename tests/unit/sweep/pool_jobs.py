"""Jobs for a pool, in a process without torch: ``python -m tests.unit.sweep.pool_jobs``."""

import json
import os
import signal
import sys
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from focusing.sweep.pool import Pool
from focusing.sweep.local import make_slots
from focusing.sweep.pool import Announce, Limits
from focusing.sweep.jobs import Job, Outcome, numbered


def execute(job: Job, announce: Announce) -> Outcome:
    [what] = job.overrides
    print(f"hello from {what}")
    if what == "die":
        config = {"data": {"name": "d"}, "model": {"name": "m"}, "protocol": {"name": "last"}}
        announce(Path.cwd() / "runs" / "seed=0", {"name": "mortal", "seed": 0, **config})
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "slow":
        time.sleep(0.6)  # longer than the pool waits between two ticks
    if what == "leave":
        os._exit(3)
    if what == "wait":
        Path("waiting").write_text(str(os.getpid()))
        try:
            time.sleep(60)
        except SystemExit:
            Path("saved").touch()
            raise
    if what == "grow":
        globals()["leak"] = bytearray(os.urandom(1)) * 50_000_000
    variables = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
    found = [os.getpid(), *(os.environ[each] for each in variables)]
    return Outcome("done", error=json.dumps(found))


def main(options: dict[str, Any], jobs: list[str]) -> None:
    limits = Limits(options.pop("jobs", 100), options.pop("growth_mb", 1000))
    lines: list[str] = []
    settings = {"workers": None, "gpus": 0, "per_gpu": 1, "threads": None, **options}
    pool = Pool(make_slots(**settings), execute, limits, lines.append, Path("pause"))
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(143))
    found, processes = {}, [0]
    begun = iter(numbered([[each] for each in jobs]))
    try:
        for job, outcome in pool.run(begun, lambda: processes.append(len(active_children()))):
            found[job.index] = (outcome.status, outcome.error)
    finally:
        pool.close()
    files = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc").exists() else 0
    most = max(processes)
    ordered = [found[index] for index in range(len(jobs))]
    print(json.dumps({"found": ordered, "said": lines, "files": files, "most": most}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
