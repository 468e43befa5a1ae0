"""Jobs that share most of their composition have the very configs that Hydra gives them."""

from pathlib import Path
from typing import Any

import pytest
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from focusing.sweep.expansion import Composer
from focusing.sweep.jobs import numbered

FIXED = ("data.n_samples=60", "hydra/launcher=local", "hydra.launcher.workers=1")
JOBS = [
    ("seed=1", "model=focus_s"),
    ("seed=2", "model=focus_s", "optim.lr=0.5"),
    ("optim.lr=0.25", "model=dense", "seed=3"),  # another network: other files
    ("seed=4", "experiment=table1", "data=synthetic", "sweep.trial=7"),
    ("experiment=sides", "seed=5", "model.hidden=[4,5]", "data.noise_position=left"),
    ("seed=6", "+callbacks.trial={a: 1}", "callbacks.trial.a=2", "model=focus_s"),
    ("~callbacks.throughput", "model=focus_s", "name='a b'"),
    ("optim={lr: 0.125}", "model=focus_s"),  # values of a group, not a choice
    ("hydra.job.name=other", "seed=7"),
    ("seed=8", "data=mnist", "size=smoke", "name=again", "seed=9"),
]


def whole(context: HydraContext, sweep: DictConfig, overrides: tuple[str, ...]) -> DictConfig:
    return context.config_loader.load_sweep_config(sweep, list(overrides))


def test_jobs_are_as_hydra_composes_them(context: HydraContext, tmp_path: Path) -> None:
    sweep = context.config_loader.load_configuration(
        "train", [*FIXED, f"paths.output_dir={tmp_path}"], run_mode=RunMode.MULTIRUN
    )
    compose = Composer(context, sweep)
    for job in [*numbered(JOBS), *numbered(JOBS[:2], 90)]:
        expected = whole(context, sweep, job.overrides)
        with open_dict(expected):
            expected.hydra.job.id = expected.hydra.job.num = job.index
        found = compose(job)
        assert found == expected
        assert known(found) == known(expected)
        found.seed = 1234  # is no business of the next job


def known(config: DictConfig) -> Any:
    """Everything that tells two configs apart: values, order, types and what they forbid."""
    nodes: list[Any] = [OmegaConf.to_yaml(config)]
    for name in ("data", "model", "optim", "hydra", "callbacks"):
        node = config[name]
        nodes += [OmegaConf.get_type(node), OmegaConf.is_struct(node), OmegaConf.is_readonly(node)]
    return nodes


@pytest.mark.parametrize("wrong", ["optim.lr=abc", "model.sgima=1", "model=dens", "+seed=1", "a=="])
def test_errors_are_hydras_own(context: HydraContext, wrong: str) -> None:
    sweep = context.config_loader.load_configuration("train", [], run_mode=RunMode.MULTIRUN)
    [job] = numbered([("seed=1", wrong)])
    with pytest.raises(HydraException) as expected:
        whole(context, sweep, job.overrides)
    with pytest.raises(HydraException) as found:
        Composer(context, sweep)(job)
    assert str(found.value) == str(expected.value)
    assert repr(found.value.__cause__) == repr(expected.value.__cause__)


def test_jobs_with_the_same_choices_are_composed_once(
    context: HydraContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = context.config_loader.load_configuration("train", [], run_mode=RunMode.MULTIRUN)
    compose, loader, seen = Composer(context, sweep), context.config_loader, []
    load = loader.load_sweep_config

    def counted(config: DictConfig, overrides: list[str]) -> DictConfig:
        seen.append(overrides)
        return load(config, overrides)

    monkeypatch.setattr(loader, "load_sweep_config", counted)
    for seed in range(3):
        for model in ("dense", "focus_s"):
            compose(numbered([(f"seed={seed}", f"model={model}", "optim.lr=1")])[0])
    assert seen == [["model=dense"], ["model=focus_s"]]
