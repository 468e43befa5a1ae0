"""One job from its overrides to its outcome, whatever happens to it."""

from __future__ import annotations

from typing import Any

from hydra.core.utils import run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from focusing.sweep.jobs import Reporting
from focusing.sweep.outcome import Job, Outcome, failure, outcome_of


def execute(context: HydraContext, config: DictConfig, task: Reporting, job: Job) -> Outcome:
    """Compose a job and run it here; a value that cannot be composed fails its own job alone.

    Args:
        context: Hydra's.
        config: of the sweep.
        task: what a job does.
        job: which one.
    """
    setup_globals()
    try:
        returned = run_job(
            hydra_context=context,
            task_function=task,
            config=compose_job(context, config, job),
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
    except Exception as error:
        return failure(error)
    return outcome_of(returned)


def compose_job(context: HydraContext, config: DictConfig, job: Job) -> Any:
    """The config of a job."""
    composed = context.config_loader.load_sweep_config(config, list(job.overrides))
    with open_dict(composed):
        composed.hydra.job.id = composed.hydra.job.num = job.index
    return composed
