"""One job from its overrides to its outcome, whatever happens to it."""

from __future__ import annotations

from hydra.core.utils import run_job, setup_globals
from hydra.types import HydraContext

from focusing.sweep.composition import Composer
from focusing.sweep.jobs import Reporting
from focusing.sweep.outcome import Job, Outcome, failure, outcome_of


def execute(context: HydraContext, compose: Composer, task: Reporting, job: Job) -> Outcome:
    """Compose a job and run it here; a value that cannot be composed fails its own job alone.

    Args:
        context: Hydra's.
        compose: makes its config.
        task: what a job does.
        job: which one.
    """
    setup_globals()
    try:
        returned = run_job(
            hydra_context=context,
            task_function=task,
            config=compose(job),
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
    except Exception as error:
        return failure(error)
    return outcome_of(returned)
