"""Where the options of a config come from: ``focusing explain``, and the comments of ``--help``.

A config is composed of many layers: signatures, files of conf/, recipes, the command line. Each
may set an option, and the last one wins.
"""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape

from focusing.compose import config_dir, expand_braces, hydra_ready, upgrade_overrides
from focusing.errors import UserError, suggest
from focusing.validation import iter_leaves

SIGNATURE = "its signature in Python"
HIDDEN_GROUPS = ("hydra", "recipe")
"""Groups of conf/ that are no choice of their own: Hydra's, and what is chosen by itself."""
COMMENT_COLUMN = 44
HELP = """\
Train a network: the paper's "Learning to focus" unless you choose something else.

  model=dense trainer.max_epochs=5     choose from a group, change an option
  -m model=dense,focus_s seed=0,1,2    all combinations, one run each
  --cfg job                            show the config and stop
  --config-dir my_conf                 add config files of your own
  --trust-target my_module.MyClass     let configs name a callback or network of your own
  --hydra-help                         options of Hydra itself

focusing explain model=focus_s optim.lr_mu says which file gave an option its value.

== Groups: choose with group=name ==

{groups}

== Options of {command}: change with option=value ==

{options}"""


class OptionSource(NamedTuple):
    """A layer that sets an option.

    Attributes:
        place: the file and line, or what else it is.
        value: what it sets the option to.
        comment: what the file says about it.
    """

    place: str
    value: Any
    comment: str = ""


def explain_option(args: argparse.Namespace) -> None:
    """``focusing explain``: print the layers that set an option, or all of a group."""
    keys = [word for word in args.words if "=" not in word]
    if len(keys) != 1:
        raise UserError(
            "Name one option, or one group, as in: focusing explain model=focus_s optim.lr"
        )
    [key], overrides = keys, [word for word in args.words if "=" in word]
    config, origins = trace_options(overrides)
    chosen = {name: places for name, places in origins.items() if f"{name}.".startswith(f"{key}.")}
    if not chosen:
        raise UserError(f"{key} is not an option of this config{suggest(key, origins)}")
    console = Console(soft_wrap=True, highlight=False)
    for name, places in chosen.items():
        value = OmegaConf.select(config, name)
        console.print(f"[bold]{name} = {escape(_shown(value))}[/]")
        width = max(len(origin.place) for origin in places)
        for place, origin in enumerate(places, start=1):
            wins = place == len(places)
            comment = f"  # {origin.comment}" if origin.comment else ""
            line = f"{'→' if wins else ' '} {origin.place:{width}}  {_shown(origin.value)}{comment}"
            console.print(escape(line), style="" if wins else "dim")


def trace_options(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, list[OptionSource]]]:
    """The config of a command line, and for each option the layers that set it, in order."""
    overrides = upgrade_overrides(overrides)
    with hydra_ready():
        config = compose("train", overrides)
        loader: Any = GlobalHydra.instance().config_loader()
        layers = loader.compute_defaults_list("train", overrides, RunMode.RUN).defaults
        origins: dict[str, list[OptionSource]] = {}
        for layer in layers:
            if layer.config_path.startswith("hydra/"):
                continue
            for key, origin in _options(layer.config_path, loader.repository):
                name = f"{layer.package}.{key}" if layer.package else key
                origins.setdefault(name, []).append(origin)
    for override in overrides:
        name, _, value = override.lstrip("+").partition("=")
        if OmegaConf.select(config, name) is not None and not (config_dir() / name).is_dir():
            origins.setdefault(name, []).append(OptionSource("the command line", value))
    names = [
        name for name, _ in iter_leaves(OmegaConf.to_container(config))
    ]  # in the config's order
    return config, {name: origins[name] for name in names if name in origins}


def _options(config_path: str, repository: Any) -> Iterator[tuple[str, OptionSource]]:
    """The options that a layer sets, by their names within it."""
    group, _, name = config_path.partition("/")
    if group == "schema":
        schema = OmegaConf.to_container(repository.load_config(config_path).config)
        for key, value in iter_leaves(schema):
            if value != "???":
                yield key, OptionSource(SIGNATURE, value)
    elif group == "recipe":
        section, _, recipe = name.partition("/")
        for file in sorted((config_dir() / "recipe").glob("*.yaml")):
            content = yaml.compose(file.read_text(encoding="utf-8"))
            for key, value in _entries(dict(_entries(content)).get(section)):
                if recipe in expand_braces(key):
                    yield from _read(value, file, f" ({section} {recipe})")
    else:
        file = config_dir() / f"{config_path}.yaml"
        if file.exists():  # of a folder of the user's own it is not known
            yield from _read(yaml.compose(file.read_text(encoding="utf-8")), file)


def _read(
    node: Any, file: Path, about: str = "", prefix: str = ""
) -> Iterator[tuple[str, OptionSource]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    place = file.relative_to(config_dir().parent)
    for key, value in _entries(node):
        if not prefix and key in ("defaults", "hydra"):
            continue
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _read(value, file, about, f"{prefix}{key}.")
            continue
        line = value.start_mark.line
        comment = lines[line].partition(" # ")[2].strip()
        content = yaml.safe_load(yaml.serialize(value))
        yield f"{prefix}{key}", OptionSource(f"{place}:{line + 1}{about}", content, comment)


def _entries(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key.value, value


def _shown(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, str):
        return value
    plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    return yaml.safe_dump(plain, default_flow_style=True, width=10**6).splitlines()[0]


def help_text(overrides: Sequence[str]) -> str:
    """What ``--help`` prints: the groups, and the options of a command with their comments."""
    folders = sorted(path for path in config_dir().iterdir() if path.is_dir())
    choices = {
        folder.name: sorted(path.stem for path in folder.glob("*.yaml"))
        for folder in folders
        if folder.name not in HIDDEN_GROUPS
    }
    choices |= {
        "hydra/launcher": ["basic", "local", "ray", "slurm"],
        "hydra/sweeper": ["grid", "optuna"],
    }
    width = shutil.get_terminal_size((120, 24)).columns
    groups = [
        textwrap.fill(f"{name:16}{', '.join(names)}", width, subsequent_indent=" " * 16)
        for name, names in choices.items()
    ]
    config, origins = trace_options(overrides)
    return HELP.format(
        groups="\n".join(groups),
        command=" ".join(["python train.py", *overrides]),
        options="\n".join(_help_lines(OmegaConf.to_container(config), origins, width)),
    )


def _help_lines(
    options: Any,
    origins: Mapping[str, Sequence[OptionSource]],
    width: int,
    prefix: str = "",
    depth: int = 0,
) -> Iterator[str]:
    for key, value in options.items():
        name, indent = f"{prefix}{key}", "  " * depth
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _help_lines(value, origins, width, f"{name}.", depth + 1)
            continue
        line = f"{indent}{key}: {_shown(value)}"
        # The first file that has a comment is the one that introduces the option.
        comment = next((origin.comment for origin in origins.get(name, ()) if origin.comment), "")
        if not comment:
            yield line
            continue
        column = max(COMMENT_COLUMN, len(line) + 1)
        wrapped = textwrap.wrap(comment, max(30, width - column - 3))
        yield f"{line:{column}}# {wrapped[0]}"
        yield from (f"{'':{column}}# {more}" for more in wrapped[1:])
