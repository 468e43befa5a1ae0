from pathlib import Path
from typing import Any

import pytest
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

pytest.importorskip("submitit")

from focusing.errors import UserError
from focusing.sweep.jobs import Reporting
from focusing.sweep.slurm import Submitit, Submitted
from focusing.sweep.jobs import Outcome


def refuse(*given: Any) -> Any:
    raise UserError(f"{given[0]} is wrong.")


@pytest.fixture
def config(context: HydraContext, tmp_path: Path) -> DictConfig:
    more = ["hydra/launcher=slurm", "hydra.launcher.more={account: me}"]
    words = [*more, f"paths.output_dir={tmp_path}"]
    return context.config_loader.load_configuration("train", words, run_mode=RunMode.MULTIRUN)


def options(config: DictConfig, **changes: Any) -> dict[str, Any]:
    found = {str(key): value for key, value in config.hydra.launcher.items()}
    for name in ("_target_", "cluster", "more"):
        del found[name]
    return {**found, **changes}


def test_an_error_on_the_other_machine_is_told_as_it_is() -> None:
    job = Submitted(refuse)
    assert job("a value") == Outcome("failed", error="a value is wrong.")
    again = job.checkpoint("a value")  # what submitit queues when time is up
    assert again.result().error == "a value is wrong."


def test_options_of_sbatch_are_taken_and_typos_refused(
    context: HydraContext, config: DictConfig
) -> None:
    def cluster(**changes: Any) -> Submitit:
        task = Reporting(lambda _: None)
        given = options(config, **changes)
        return Submitit(context, config, task, cluster="local", options=given)

    assert config.hydra.launcher.more == {"account": "me"}
    assert cluster(account="me").jobs_at_once >= 1
    with pytest.raises(UserError, match="Unknown argument 'accuont'"):
        cluster(accuont="me")
    with pytest.raises(UserError, match="cpus_per_task=0 must be at least 1"):
        cluster(cpus_per_task=0)
