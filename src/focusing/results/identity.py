"""Which configs are the same experiment, and the folder of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

IRRELEVANT = ("name", "seed", "resume", "force", "figures", "paths", "logger", "sweep")
"""Options of a run that do not change what it computes (the seed has a folder of its own)."""
IRRELEVANT_TO_TRAINER = ("accelerator", "devices")
ONLOOKERS = ("progress", "throughput", "flush", "stuck", "trajectory", "trial")
"""Callbacks that only watch; ``trial`` may end a run early, which is then not done."""


def config_hash(config: Mapping[str, Any]) -> str:
    """Ten hexadecimal digits that are equal for configs that compute the same."""
    kept = {name: value for name, value in config.items() if name not in IRRELEVANT}
    for group, dropped in (("trainer", IRRELEVANT_TO_TRAINER), ("callbacks", ONLOOKERS)):
        options = kept.get(group) or {}
        kept[group] = {name: value for name, value in options.items() if name not in dropped}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def run_folder(config: Mapping[str, Any]) -> Path:
    """``<output_dir>/<name>/<hash>/seed=<seed>``."""
    output = Path(config["paths"]["output_dir"]).expanduser().absolute()
    return output.joinpath(config["name"], config_hash(config), f"seed={config['seed']}")
