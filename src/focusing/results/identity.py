"""Hash of a config, the run folder that follows from it, and configs of older versions.

The hash covers the options that differ from the defaults of the schema. So a new option at its
default changes no hash, and finished runs stay finished. :func:`upgrade_config` maps other changes
between versions: rename an option there, never in a record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from focusing.config import (
    LEGACY_NAME,
    PAPER_EDITION,
    SCHEMA_TARGETS,
    Config,
    drops_last_batch,
    group_schemas,
)

VERSION = 2
"""Version of the hash. Version 1 covered all options, so every new option changed it."""
UNHASHED_OPTIONS = ("name", "seed", "resume", "force", "figures", "paths", "logger", "sweep")
"""Options that do not affect the result; the seed does, but is a part of the path itself."""
UNHASHED_TRAINER_OPTIONS = ("accelerator", "devices")
PASSIVE_CALLBACKS = ("progress", "throughput", "flush", "stuck", "trajectory", "trial", "windows")
"""Callbacks that do not affect the result; ``trial`` may stop a run, but then it is not done."""
_MODEL = "mu sigma hidden filters kernel pool features pretrained pad embedding"
_DATA = (
    "generator n_samples classes clusters informative separation noise noise_position noise_kind "
    "seed on_missing pad variant train test size patches patch_size min_faces stretch "
    "interpolation speakers coefficients frames window hop bands words length ngrams"
)
ALWAYS_HASHED = {
    "model": _MODEL.split(),
    "data": _DATA.split(),
    "focusing.models.CNN": ["batch_norm", "dropout"],
    "focusing.models.focused_cnn": ["batch_norm", "dropout"],
    "focusing.models.dense_transfer": ["dropout"],
    "focusing.models.focused_transfer": ["dropout"],
    "focusing.data.synthetic": ["test_share"],
    "focusing.data.cifar10": ["_target_"],
    "focusing.data.fashion": ["_target_"],
}
"""Options by group or target that had no default once, so the hash covers any value of them. New
options do not belong here."""
LATER_WINDOW_OPTIONS = {"stn": {"jitter": 0.0}}
"""Options that ``model.dynamic`` got after runs were published, and their defaults, by its kind.
Windows have no schema, so the hash covers all their other options."""

Options = Mapping[str, Any]


def config_hash(config: Options) -> str:
    """Ten hexadecimal digits, equal for configs that compute the same."""
    kept = {name: value for name, value in config.items() if name not in UNHASHED_OPTIONS}
    kept = _renamed(kept, {name: {usual: LEGACY_NAME} for name, usual in PAPER_EDITION.items()})
    for group, dropped in (("trainer", UNHASHED_TRAINER_OPTIONS), ("callbacks", PASSIVE_CALLBACKS)):
        options = kept.get(group) or {}
        kept[group] = {name: value for name, value in options.items() if name not in dropped}
    kept = _with_windows(kept, _without_later_options)
    for group, options in kept.items():
        if isinstance(options, Mapping):
            kept[group] = _differing(options, _schema(group, options.get("_target_")))
    text = json.dumps([VERSION, kept], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def run_folder(config: Options) -> Path:
    """``<output_dir>/<name>/<hash>/seed=<seed>``."""
    output = Path(config["paths"]["output_dir"]).expanduser().absolute()
    return output.joinpath(config["name"], config_hash(config), f"seed={config['seed']}")


def upgrade_config(config: Options, samples: int | None = None) -> dict[str, Any]:
    """Convert the config of an older record to this version.

    Args:
        config: the config.
        samples: number of training samples, if known.
    """
    upgraded = dict(config)
    optim = config.get("optim")
    if optim and "drop_last" not in optim and samples:
        # Before this option existed, runs dropped a last batch of a single sample only.
        batch_norm = bool(config["model"].get("batch_norm"))
        size = optim["batch_size"]
        drops_now = drops_last_batch("auto", samples, size, batch_norm=batch_norm)
        differs = drops_now and samples % size not in (0, 1)
        upgraded["optim"] = {**optim, "drop_last": False if differs else "auto"}
    upgraded = _with_windows(upgraded, lambda windows, later: {**later, **windows})
    for group, options in upgraded.items():
        schema = _schema(group, options.get("_target_") if isinstance(options, Mapping) else None)
        if schema is not None:
            upgraded[group] = _completed(options, schema)
    return upgraded


def rename_legacy_values(record: Any) -> Any:
    """Replace the version 0.1 names of size, variant and protocol in a record.

    The record need not be valid.
    """
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        return record
    config = rename_legacy_options(record["config"])
    scores = record.get("scores")
    if isinstance(scores, dict) and LEGACY_NAME in scores:
        scores = {
            PAPER_EDITION["protocol"] if key == LEGACY_NAME else key: scores[key] for key in scores
        }
    return {**record, "config": config, **({"scores": scores} if "scores" in record else {})}


def rename_legacy_options(config: Options) -> dict[str, Any]:
    """Replace the version 0.1 names of size, variant and protocol in a config."""
    return _renamed(config, {name: {LEGACY_NAME: usual} for name, usual in PAPER_EDITION.items()})


def _renamed(config: Options, names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Replace values of string options, and names of groups: option -> old -> new."""
    renamed = dict(config)
    for group, replacements in names.items():
        value = renamed.get(group)
        if isinstance(value, str):
            renamed[group] = replacements.get(value, value)
        elif isinstance(value, Mapping) and isinstance(name := value.get("name"), str):
            renamed[group] = {**value, "name": replacements.get(name, name)}
    return renamed


def _with_windows(
    config: Options, change: Callable[[Options, Options], dict[str, Any]]
) -> dict[str, Any]:
    """Change ``model.dynamic``, given the options that its kind got later."""
    model = config.get("model")
    model = model if isinstance(model, Mapping) else {}
    windows = model.get("dynamic")
    if not isinstance(windows, Mapping) or windows.get("kind") not in LATER_WINDOW_OPTIONS:
        return dict(config)
    changed = change(windows, LATER_WINDOW_OPTIONS[windows["kind"]])
    return {**config, "model": {**model, "dynamic": changed}}


def _without_later_options(windows: Options, later: Options) -> dict[str, Any]:
    return {
        name: value for name, value in windows.items() if name not in later or value != later[name]
    }


def _differing(options: Options, schema: type | None) -> dict[str, Any]:
    """The options that differ from the defaults of the schema."""
    defaults = _defaults(schema) if schema else {}
    kept = {}
    for name, value in options.items():
        default = defaults.get(name, NO_DEFAULT)
        if isinstance(value, Mapping) and is_dataclass(default):
            value = _differing(value, type(default))
            default = {}
        if default is NO_DEFAULT or value != default:
            kept[name] = value
    return kept


def _completed(options: Options, schema: type) -> dict[str, Any]:
    """Fill in missing options with the defaults of the schema."""
    completed = dict(options)
    for name, default in _defaults(schema).items():
        if is_dataclass(default):
            completed[name] = _completed(completed.get(name, {}), type(default))
        else:
            completed.setdefault(name, default)
    return completed


@cache
def _schema(group: str, target: str | None) -> type | None:
    """The schema of a config group; for a network or data set, the schema of its target."""
    if group in SCHEMA_TARGETS:
        names = [name for name, known in SCHEMA_TARGETS[group].items() if known == target]
        # Unknown data sets are the user's own: these use the schema "images".
        return group_schemas()[group].get(names[0] if names else "images")
    kinds = {field.name: field.default_factory for field in fields(Config)}
    kind = kinds.get(group)
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


@cache
def _defaults(schema: type) -> dict[str, Any]:
    """Defaults of a schema, without the options that only YAML files set."""
    defaults = {}
    target = getattr(schema, "_target_", "")
    group = "model" if "models" in target else "data" if target else ""
    hashed = {*ALWAYS_HASHED.get(group, ()), *ALWAYS_HASHED.get(target, ())}
    for field in fields(schema):
        factory = field.default_factory
        default = field.default if factory is NO_DEFAULT else factory()
        if default not in (NO_DEFAULT, "???") and field.name not in hashed:
            defaults[field.name] = default
    return defaults
