from typing import Any

import pytest
from hydra.errors import HydraException, MissingConfigException
from hydra.types import HydraContext, RunMode

from focusing.sweep.expansion import expand, parse, validate


def jobs(context: HydraContext, params: dict[str, str] | None, *arguments: str) -> list[Any]:
    return [each.overrides for each in expand(parse(context, params, arguments))]


def test_all_combinations_and_the_command_line_wins(context: HydraContext) -> None:
    params = {"model": "dense,focus_s", "seed": "range(3)"}
    assert len(jobs(context, params)) == 6
    assert jobs(context, params, "seed=5", "figures=false") == [
        ("model=dense", "seed=5", "figures=False"),
        ("model=focus_s", "seed=5", "figures=False"),
    ]
    assert jobs(context, None, "model.hidden=[4],[40,8]") == [
        ("model.hidden=[4]",),
        ("model.hidden=[40,8]",),
    ]
    assert jobs(context, None) == [()]


def test_names_are_checked_without_composing_every_job(
    context: HydraContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = context.config_loader
    config = loader.load_configuration("train", [], run_mode=RunMode.MULTIRUN)
    composed = []
    whole = loader.load_sweep_config

    def counted(master: Any, overrides: list[str]) -> Any:
        composed.append(overrides)
        return whole(master, overrides)

    monkeypatch.setattr(loader, "load_sweep_config", counted)
    many = expand(parse(context, None, ["model=dense,focus_s", "seed=range(1000)"]))
    validate(context, config, many)
    assert [each[0] for each in composed] == ["model=dense", "model=focus_s"]
    for wrong, error in (
        ("model=dense,nonsense", MissingConfigException),
        ("model.sgima=1,2", HydraException),
    ):
        with pytest.raises(error):
            validate(context, config, expand(parse(context, None, [wrong, "seed=range(1000)"])))
