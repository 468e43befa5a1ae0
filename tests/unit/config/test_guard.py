"""Hydra's own part of a config cannot run programs either."""

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from focusing import instantiate
from focusing.compose import config_dir, prepare_hydra
from focusing.errors import UserError
from focusing.instantiate import check_hydra

EVIL = {
    "_target_": "torch.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler"
}


def hydra(**parts: Any) -> Any:
    """Hydra's part as it is by default, with some changes."""
    plugin = {"_target_": "hydra_plugins.x.Y", "folder": "${hydra.sweep.dir}/x", "more": None}
    known: dict[str, Any] = {
        "job": {"env_set": {}, "name": "train"},
        "sweep": {"dir": "."},
        "runtime": {"output_dir": "???"},
        "callbacks": {},
        "launcher": plugin,
        "sweeper": plugin,
        "hydra_logging": {"handlers": {"a": {"class": "logging.StreamHandler"}}},
        "job_logging": None,
    }
    return OmegaConf.create({"hydra": {**known, **parts}, "evil": EVIL, "os": "os"}).hydra


def handler(**options: Any) -> dict[str, Any]:
    return {"root": {"level": "INFO"}, "handlers": {"one": options}}


FILE = "${hydra.runtime.output_dir}/${hydra.job.name}.log"


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"job_logging": handler(**{"class": "logging.FileHandler", "filename": FILE})},
        {
            "job_logging": handler(
                **{"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}
            )
        },
        {"launcher": None, "sweeper": {"_target_": "x.Y", "params": {"a": ["b", 1]}}},
    ],
)
def test_what_is_harmless_passes(parts: dict[str, Any]) -> None:
    check_hydra(hydra(**parts), sweeps=True)


@pytest.mark.parametrize(
    ("parts", "option"),
    [
        ({"callbacks": {"x": EVIL}}, r"callbacks\.x\._target_"),
        ({"callbacks": {"x": "${evil}"}}, r"callbacks\.x\._target_"),
        (
            {"callbacks": {"x": {"y": [{"_target_": "${os}.system"}]}}},
            r"y\.0\._target_='os.system'",
        ),
        ({"launcher": {"_target_": "hydra_plugins.x.Y", "a": EVIL}}, r"launcher\.a\._target_"),
        ({"sweeper": {"_target_": "x.Y", "a": [{"b": EVIL}]}}, r"sweeper\.a\.0\.b\._target_"),
        ({"sweeper": {"_target_": "x.Y", "a": "${evil}"}}, r"sweeper\.a\._target_"),
        ({"job": {"env_set": {"GIT_CONFIG_COUNT": "1"}}}, r"job\.env_set"),
        (
            {"job_logging": handler(**{"class": "subprocess.Popen"})},
            r"one\.class='subprocess.Popen'",
        ),
        (
            {"hydra_logging": handler(**{"()": EVIL["_target_"]})},
            r"hydra_logging\.handlers\.one\.\(\)",
        ),
        ({"job_logging": handler(**{"class": "${os}.X"})}, r"one\.class"),
        ({"job_logging": handler(stream="ext://os.system")}, r"one\.stream"),
        ({"job_logging": handler(filename="/etc/passwd")}, r"one\.filename"),
        ({"job_logging": handler(mode="w")}, r"one\.mode"),
        ({"job_logging": {"handlers": "${evil}"}}, r"job_logging\.handlers"),
        ({"job_logging": "${evil}"}, "job_logging"),
    ],
)
def test_what_is_not_is_refused(parts: dict[str, Any], option: str) -> None:
    with pytest.raises(UserError, match=rf"^hydra\..*{option}.* is refused"):
        check_hydra(hydra(**parts), sweeps=True)


def test_a_callback_of_ones_own_needs_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instantiate, "_trusted", {"my_code.Watch"})
    check_hydra(hydra(callbacks={"x": {"_target_": "my_code.Watch"}}), sweeps=False)
    with pytest.raises(UserError, match="add --trust-target my_code.Other"):
        check_hydra(hydra(callbacks={"x": {"_target_": "my_code.Other"}}), sweeps=False)


@pytest.mark.parametrize("choice", ["default", "none"])
def test_hydras_own_choices_of_loggers_pass(choice: str) -> None:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        assert compose("train", [f"hydra/job_logging={choice}"])


def test_whatever_composes_is_guarded(tmp_path: Path) -> None:
    file = tmp_path / "touched"
    prepare_hydra()
    prepare_hydra()
    evil = f"+hydra.callbacks.x={{_target_:{EVIL['_target_']},entrypoint:touch,args:[{file}]}}"
    with (
        initialize_config_dir(str(config_dir()), version_base="1.3"),
        pytest.raises(UserError, match=r"hydra\.callbacks\.x\._target_"),
    ):
        compose("train", [evil])
    assert not file.exists()
