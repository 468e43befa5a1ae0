"""Find out which layer of a config sets an option: ``focusing explain`` and ``--help``.

The layers are the Python signatures, the files of conf/, the recipes and the command line. The last
layer that sets an option wins.
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
"""Groups of conf/ that users do not choose from."""
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
        place: file and line, or another name of the layer.
        value: the value that it sets.
        comment: the comment on that line.
    """

    place: str
    value: Any
    comment: str = ""


def explain_option(args: argparse.Namespace) -> None:
    """``focusing explain``: print the layers that set an option, or every option of a group."""
    keys = [word for word in args.words if "=" not in word]
    if len(keys) != 1:
        raise UserError(
            "Name one option, or one group, as in: focusing explain model=focus_s optim.lr"
        )
    [key], overrides = keys, [word for word in args.words if "=" in word]
    config, sources = trace_options(overrides)
    chosen = {name: layers for name, layers in sources.items() if f"{name}.".startswith(f"{key}.")}
    if not chosen:
        raise UserError(f"{key} is not an option of this config{suggest(key, sources)}")
    console = Console(soft_wrap=True, highlight=False)
    for name, layers in chosen.items():
        console.print(f"[bold]{name} = {escape(_format_value(OmegaConf.select(config, name)))}[/]")
        width = max(len(layer.place) for layer in layers)
        for layer in layers:
            wins = layer is layers[-1]
            line = f"{'→' if wins else ' '} {layer.place:{width}}  {_format_value(layer.value)}"
            line += f"  # {layer.comment}" if layer.comment else ""
            console.print(escape(line), style="" if wins else "dim")


def trace_options(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, list[OptionSource]]]:
    """Compose a config, and list for every option the layers that set it, in order."""
    overrides = upgrade_overrides(overrides)
    with hydra_ready():
        config = compose("train", overrides)
        loader: Any = GlobalHydra.instance().config_loader()
        layers = loader.compute_defaults_list("train", overrides, RunMode.RUN).defaults
        sources: dict[str, list[OptionSource]] = {}
        for layer in layers:
            if layer.config_path.startswith("hydra/"):
                continue
            for key, source in _options(layer.config_path, loader.repository):
                name = f"{layer.package}.{key}" if layer.package else key
                sources.setdefault(name, []).append(source)
    for override in overrides:
        name, _, value = override.lstrip("+").partition("=")
        if OmegaConf.select(config, name) is not None and not (config_dir() / name).is_dir():
            sources.setdefault(name, []).append(OptionSource("the command line", value))
    in_order = dict(iter_leaves(OmegaConf.to_container(config)))
    return config, {name: sources[name] for name in in_order if name in sources}


def _options(config_path: str, repository: Any) -> Iterator[tuple[str, OptionSource]]:
    """Yield the options that a layer sets, with their names relative to the layer."""
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
        if file.exists():  # files in --config-dir are not traced
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


def _format_value(value: Any) -> str:
    """Format a value as one types it on the command line."""
    if isinstance(value, str):
        return value
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).splitlines()[0]


def help_text(overrides: Sequence[str]) -> str:
    """The text of ``--help``: the groups, and the options of a command with their comments."""
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
    config, sources = trace_options(overrides)
    return HELP.format(
        groups="\n".join(groups),
        command=" ".join(["python train.py", *overrides]),
        options="\n".join(_help_lines(OmegaConf.to_container(config), sources, width)),
    )


def _help_lines(
    options: Any,
    sources: Mapping[str, Sequence[OptionSource]],
    width: int,
    prefix: str = "",
    depth: int = 0,
) -> Iterator[str]:
    for key, value in options.items():
        name, indent = f"{prefix}{key}", "  " * depth
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _help_lines(value, sources, width, f"{name}.", depth + 1)
            continue
        line = f"{indent}{key}: {_format_value(value)}"
        # The first file with a comment is the one that introduces the option.
        comment = next((source.comment for source in sources.get(name, ()) if source.comment), "")
        if not comment:
            yield line
            continue
        column = max(COMMENT_COLUMN, len(line) + 1)
        wrapped = textwrap.wrap(comment, max(30, width - column - 3))
        yield f"{line:{column}}# {wrapped[0]}"
        yield from (f"{'':{column}}# {more}" for more in wrapped[1:])
