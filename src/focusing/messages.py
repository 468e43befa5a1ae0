"""Sentences about the mistakes of a user that Hydra, OmegaConf or the system report."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from focusing.config import LEGACY_NAME, PAPER_EDITION
from focusing.errors import UserError, suggest
from focusing.validation import iter_leaves


def user_message(error: BaseException) -> str | None:
    """A sentence about an error that the user can fix; None for any other error."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, MemoryError) or "t allocate memory" in str(error):  # torch's RuntimeError
        return f"There is not enough memory for this: {' '.join(str(error).split())}."
    if isinstance(error, MissingConfigException):
        return _missing_choice(error)
    if isinstance(error, ValueError) and str(error).startswith("Only one of --run"):
        return "-m, --cfg, --info and --shell-completion exclude each other: leave out all but one."
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OmegaConfBaseException):
            return _wrong_option(cause)
        cause = cause.__cause__
    removed = re.match(r"Error resolving interpolation '(.*)', possible.* keys: (.*)", str(error))
    if removed:  # a group that others interpolate
        gone = set(re.findall(r"\$\{(\w+)\}", removed[1])) - set(removed[2].split(", "))
        return missing_option_message(min(gone, default=removed[1]))
    nested = r"In '(experiment/[^']*)': .*Key 'experiment' not in 'Config'"
    if unpackaged := re.match(nested, str(error), re.DOTALL):
        return (
            f"{unpackaged[1]}.yaml does not say that its options begin at the root: make "
            "'# @package _global_' its first line."
        )
    if isinstance(error, OverrideParseException) and error.override not in str(error):
        return f"{error.override}: {' '.join(str(error).split())}"
    from_hydra = isinstance(error, ConfigCompositionException | HydraException)
    if from_hydra or str(error).startswith("Config group override"):  # of Hydra's own groups
        return " ".join(str(error).split())
    return None


def missing_option_message(option: str) -> str:
    """Error message for an option without a value."""
    return f"{option} is missing: give it a value, and leave out the ~ that removes it."


def unreadable_config(loader: Any, error: YAMLError | UnicodeDecodeError) -> str:
    """A sentence about the config file that Hydra could not read."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or "is not YAML"
        return f"{mark.name}, line {mark.line + 1}: {problem}."
    sources = loader.get_search_path().get_path()
    for source in sources if isinstance(error, UnicodeDecodeError) else ():
        for path in Path(source.path.removeprefix("file://")).rglob("*.yaml"):
            try:
                path.read_text("utf-8")
            except UnicodeDecodeError as wrong:
                return f"{path} is not UTF-8 text: see its byte {wrong.start}."
    return " ".join(str(error).split())


def _missing_choice(error: MissingConfigException) -> str:
    group, _, choice = (error.missing_cfg_file or "").rpartition("/")
    options = list(filter(None, error.options or ()))
    if not group or not options:
        return " ".join(str(error).split())
    if choice == LEGACY_NAME and group in PAPER_EDITION:  # in a config file of the user
        return f"{group}={choice} is now called {group}={PAPER_EDITION[group]}."
    return f"{group}={choice} does not exist{suggest(choice, options, f'{group}=')}"


def _nested_option(key: str, config: Any) -> str | None:
    """The option of a group that ends with a name, such as optim.lr or trainer.max_epochs."""
    names = [name.rpartition(".") for name, _ in iter_leaves(OmegaConf.to_container(config))]
    names = [name for name in names if not name[0].startswith("hydra")]
    matches = [name for name in names if name[2] == key]
    matches = matches or [name for name in names if name[2].endswith(f"_{key}")]
    matches.sort(key=lambda name: (name[0].count("."), len(name[2])))
    return "".join(matches[0]) if matches else None


def _wrong_option(error: OmegaConfBaseException) -> str:
    full = error.full_key or str(error.key)
    if isinstance(error, ConfigKeyError | AttributeError) and error.parent_node is not None:
        schema = OmegaConf.get_type(error.parent_node)
        if is_dataclass(schema) and error.key in {field.name for field in fields(schema)}:
            return missing_option_message(full)
        known = [str(key) for key in error.parent_node if key != "_target_"]
        prefix = full.rpartition(".")[0]
        key = str(error.key)
        if not prefix and (nested := _nested_option(key, error.parent_node)):
            return f"{full} is not an option, did you mean {nested}?"
        if prefix.endswith(".options"):  # of torch's optimizers, which may have any
            return f"{full} has no value to change: write +{full}=... to add it."
        hint = suggest(key, known, prefix and prefix + ".")
        if prefix in ("data", "model") and "name" in known and "did you mean" not in hint:
            hint = f" of {prefix}={error.parent_node['name']}{hint}"  # another may have it
        return f"{full} is not an option{hint}"
    reason = str(error.msg or error).split("\n    full_key:")[0]
    reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", reason)
    return f"{full}: {' '.join(reason.split()).rstrip('.')}."
