"""Expansion of command lines into jobs, and composition of the configs of jobs."""

from pathlib import Path
from typing import Any

import pytest
from hydra.errors import HydraException, MissingConfigException
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, open_dict

from focusing.errors import UserError
from focusing.sweep.expansion import Composer, expand, is_valid, parse, validate
from focusing.sweep.jobs import Job, number_jobs
from tests.unit.sweep.conftest import Load

JOBS = [
    ("seed=1", "model=focus_s"),
    ("seed=2", "model=focus_s", "optim.lr=0.5"),
    ("optim.lr=0.25", "model=dense", "seed=3"),  # other config files
    ("experiment=sides", "seed=5", "model.hidden=[4,5]", "data.noise_position=left"),
    ("seed=6", "+callbacks.trial={a: 1}", "callbacks.trial.a=2", "model=focus_s"),
    ("~callbacks.throughput", "model=focus_s", "name='a b'"),
    ("optim={lr: 0.125}", "model=focus_s"),  # values of a group, not a choice
    ("hydra.job.name=other", "seed=7"),
    ("seed=8", "data=mnist", "size=smoke", "name=again", "seed=9"),
]


def expanded(context: HydraContext, params: dict[str, str] | None, *arguments: str) -> list[Any]:
    return [job.overrides for job in expand(parse(context, params, arguments))]


def test_expansion_and_precedence_of_the_command_line(context: HydraContext) -> None:
    params = {"model": "dense,focus_s", "seed": "range(3)"}
    assert len(expanded(context, params)) == 6
    assert expanded(context, params, "seed=5", "figures=false") == [
        ("model=dense", "seed=5", "figures=False"),
        ("model=focus_s", "seed=5", "figures=False"),
    ]
    assert expanded(context, None, "model.hidden=[4],[40,8]") == [
        ("model.hidden=[4]",),
        ("model.hidden=[40,8]",),
    ]
    assert expanded(context, None) == [()]
    for words, message in (
        ("seed=range(1000000000)", "100000 jobs or more"),
        ("seed=range(0,3,0)", "must not be zero"),
        ("optim.lr=interval(0,1)", "optim.lr is an interval: use hydra/sweeper=optuna"),
    ):
        with pytest.raises(UserError, match=message):
            expanded(context, None, words)


@pytest.fixture
def composed(context: HydraContext, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record the overrides of everything that Hydra composes."""
    loader = context.config_loader
    original, calls = loader.load_sweep_config, list[list[str]]()

    def counted(config: DictConfig, overrides: list[str]) -> DictConfig:
        calls.append(overrides)
        return original(config, overrides)

    monkeypatch.setattr(loader, "load_sweep_config", counted)
    return calls


def test_names_are_checked_without_composing_every_job(
    context: HydraContext, load: Load, composed: list[list[str]]
) -> None:
    config = load()
    many = expand(parse(context, None, ["model=dense,focus_s", "seed=range(1000)"]))
    validate(context, config, many)
    assert [overrides[0] for overrides in composed] == ["model=dense", "model=focus_s"]
    for wrong, error in (
        ("model=dense,nonsense", MissingConfigException),
        ("model.sgima=1,2", HydraException),
    ):
        with pytest.raises(error):
            validate(context, config, expand(parse(context, None, [wrong, "seed=range(1000)"])))


@pytest.mark.parametrize(
    ("arguments", "params", "parts", "valid"),
    [
        ("model=dense data=glob(mn*) seed=range(1000)", {}, {}, True),
        ("model=focus_s", {"optim.sigma_l2": "0,1e-4"}, {}, True),
        ("model=dense", {"optim.sigma_l2": "0,1e-4"}, {}, False),  # the second value is wrong
        ("model=dense,cnn_dense model.hidden=[8,8]", {}, {}, False),  # so is the second network
        ("model=dense", {}, {"all": {"model": "focus_s,focus_c"}}, False),
    ],
)
def test_mistakes_of_a_sweep_are_found_in_any_of_its_values(
    context: HydraContext, load: Load, arguments: str, params: Any, parts: Any, valid: bool
) -> None:
    assert is_valid(context, load(), params, parts, arguments.split()) == valid


def test_jobs_with_the_same_choices_are_composed_once(
    context: HydraContext, load: Load, composed: list[list[str]]
) -> None:
    compose = Composer(context, load())
    for seed in range(3):
        for model in ("dense", "focus_s"):
            compose(Job(0, (f"seed={seed}", f"model={model}", "optim.lr=1")))
    assert composed == [["model=dense"], ["model=focus_s"]]


def test_composer_equals_hydra(context: HydraContext, load: Load, tmp_path: Path) -> None:
    sweep = load("data.n_samples=60", "hydra/launcher=local", f"paths.output_dir={tmp_path}")
    compose = Composer(context, sweep)
    for job in [*number_jobs(JOBS), *number_jobs(JOBS[:1], 90)]:
        expected = context.config_loader.load_sweep_config(sweep, list(job.overrides))
        with open_dict(expected):
            expected.hydra.job.id = expected.hydra.job.num = job.index
        config = compose(job)
        assert config == expected
        assert details(config) == details(expected)
        config.seed = 1234  # must not reach the next job


def details(config: DictConfig) -> Any:
    """Return everything in which two configs may differ: values, order, types and flags."""
    nodes: list[Any] = [OmegaConf.to_yaml(config)]
    for name in ("data", "model", "optim", "hydra", "callbacks"):
        node = config[name]
        nodes += [OmegaConf.get_type(node), OmegaConf.is_struct(node), OmegaConf.is_readonly(node)]
    return nodes


def test_composer_raises_the_errors_of_hydra(context: HydraContext, load: Load) -> None:
    sweep = load()
    compose = Composer(context, sweep)
    for wrong in ("optim.lr=abc", "model.sgima=1", "model=dens", "+seed=1", "a=="):
        with pytest.raises(HydraException) as expected:
            context.config_loader.load_sweep_config(sweep, ["seed=1", wrong])
        with pytest.raises(HydraException) as error:
            compose(Job(0, ("seed=1", wrong)))
        assert str(error.value) == str(expected.value)
        assert repr(error.value.__cause__) == repr(expected.value.__cause__)
