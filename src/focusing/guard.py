"""What a config may make Hydra do before any code of ours sees it.

Hydra calls what its own part of a config names: callbacks, loggers, launchers and sweepers. It
also sets the environment of a job, which tells git, for one, what to run. A config may come from
anybody, so it gets to choose among what is known to be harmless.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from focusing.errors import UserError
from focusing.instantiate import trusted

LOGGING = (
    "logging.FileHandler",
    "logging.Formatter",
    "logging.NullHandler",
    "logging.StreamHandler",
    "colorlog.ColoredFormatter",
)
"""Classes that loggers may be made of."""
LOG_FILE = "${hydra.runtime.output_dir}/${hydra.job.name}.log"
"""The file of Hydra's own choices of ``hydra/job_logging``."""
STREAMS = ("ext://sys.stdout", "ext://sys.stderr")

Option = tuple[tuple[str, ...], Any]


def check_hydra(hydra: DictConfig, *, sweeps: bool) -> None:
    """Refuse what could run a program or write to any file.

    Args:
        hydra: Hydra's part of a composed config.
        sweeps: whether Hydra goes on to make the launcher and the sweeper.

    Raises:
        UserError: with the option.
    """
    if hydra.job.env_set:
        raise UserError("hydra.job.env_set is refused: set variables in your shell instead.")
    for part in ("callbacks", "launcher", "sweeper") if sweeps else ("callbacks",):
        for path, value in _options(hydra, part, resolve=True):
            plugin = path in (("launcher", "_target_"), ("sweeper", "_target_"))  # Hydra knows them
            if path[-1] == "_target_" and not plugin and value not in trusted():
                raise _refusal(path, value, f" If it is your own, add --trust-target {value}.")
    for part in ("hydra_logging", "job_logging"):
        for path, value in _options(hydra, part, resolve=False):
            if not _may_log(path[-1], value):
                raise _refusal(path, value)


def _may_log(key: str, value: Any) -> bool:
    if key in ("class", "()"):
        return value in LOGGING
    if key in ("filename", "mode"):
        return value in (LOG_FILE, "a")
    text = str(value)  # an interpolation may become anything later
    return "${" not in text and ("://" not in text or value in STREAMS)


def _options(hydra: DictConfig, part: str, *, resolve: bool) -> Iterator[Option]:
    """Each option below a part of Hydra's, with its path."""
    if not resolve and OmegaConf.is_interpolation(hydra, part):
        raise _refusal((part,), "${...}")
    if OmegaConf.is_config(hydra[part]):
        yield from _leaves((part,), OmegaConf.to_container(hydra[part], resolve=resolve))


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[Option]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves((*path, str(key)), inner)
    else:
        yield path, value


def _refusal(path: tuple[str, ...], value: Any, more: str = "") -> UserError:
    name = ".".join(("hydra", *path))
    return UserError(f"{name}={value!r} is refused: a config must not run programs.{more}")
