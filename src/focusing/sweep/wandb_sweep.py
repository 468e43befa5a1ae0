"""``focusing wandb sweep``: turns a multirun into a W&B sweep, whose agents run our command."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.types import RunMode

from focusing.errors import UserError
from focusing.sweep.expansion import hydra_context, parse_parts, validate
from focusing.sweep.search import REGRESSION_DATA, bounds_of, example_jobs

HEADER = "# wandb sweep {file} prints an id; on each machine: wandb agent ENTITY/{project}/ID\n"
# An agent chooses one value of each parameter, so the command it runs is not a multirun.
COMMAND = ("${env}", "${program}", "train", "hydra.mode=RUN")


def write_sweep(options: argparse.Namespace) -> None:
    """Write the files of a sweep; the arguments are those of the command."""
    project = options.project or "focusing"
    account = {"project": project} | ({"entity": options.entity} if options.entity else {})
    parts = sweeps(options.overrides, account)
    for part, sweep in parts.items():
        out: Path = options.out
        if len(parts) > 1:
            out = out.with_stem(f"{out.stem}_{part}")
        content = yaml.safe_dump(sweep, sort_keys=False, default_flow_style=None, width=100)
        text = HEADER.format(file=out, project=project) + content
        if options.dry_run:
            print(f"---\n{text}" if len(parts) > 1 else text, end="")
        else:
            out.write_text(text, encoding="utf-8")
            print(f"{out}: {describe_size(sweep)}. Next: wandb sweep {out}")


def sweeps(overrides: Sequence[str], account: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Describe a multirun as W&B sweeps: one for each part of a table, which mostly is one.

    Args:
        overrides: the command line of ``focusing train -m``.
        account: the project, and the entity if it is given. An agent logs to the project of its
            sweep in any case. The command names it too, so that ``focusing wandb push`` finds it.
    """
    logged = ["logger=wandb", *(f"logger.wandb.{key}={name}" for key, name in account.items())]
    with hydra_context() as context:
        loader = context.config_loader
        config = loader.load_configuration("train", list(overrides), run_mode=RunMode.MULTIRUN)
        sweeper = config.hydra.sweeper
        own = [word for word in overrides if not word.lstrip("+~").startswith(("hydra.", "hydra/"))]
        parts = parse_parts(context, sweeper.get("params"), sweeper.get("parts"), own)
        descriptions = {}
        for name, part in parts.items():
            parameters = {o.get_key_element(): _parameter(o) for o in part if o.is_sweep_override()}
            if not parameters:
                raise UserError(
                    "There is nothing to sweep: give values, as in model=dense,focus_s seed=0,17."
                )
            fixed = [o.input_line or "" for o in part if not o.is_sweep_override()]
            examples = {key: p.get("values") or [p["min"]] for key, p in parameters.items()}
            validate(context, config, example_jobs(examples, fixed))
            groups = {key for key in parameters if loader.get_group_options(key)}
            if not any(word.startswith("logger") for word in fixed):
                fixed = [*logged, *fixed]
            data = parameters.get("data", {}).get("values") or [
                word.partition("=")[2] for word in fixed if word.startswith("data=")
            ]
            lower_is_better = bool(data) and set(data) <= set(REGRESSION_DATA)
            descriptions[name] = {
                **account,
                "name": config.name if len(parts) == 1 else f"{config.name} {name}",
                "program": "focusing",
                **_method(sweeper, parameters, groups),
                "metric": {
                    "name": f"score/{config.protocol.name}",
                    "goal": sweeper.get("direction")
                    or ("minimize" if lower_is_better else "maximize"),
                },
                "parameters": parameters,
                "command": [*COMMAND, *fixed, "${args_no_hyphens}"],
            }
        return descriptions


def describe_size(sweep: Mapping[str, Any]) -> str:
    """Say how many runs a sweep has."""
    if sweep["method"] != "grid":
        return f"a {sweep['method']} search of {sweep['run_cap']} runs"
    return f"{math.prod(len(p['values']) for p in sweep['parameters'].values())} runs"


def _method(sweeper: Any, parameters: Mapping[str, Any], groups: set[str]) -> dict[str, Any]:
    """Choose the search method of W&B that is nearest to that of the sweeper."""
    searched = "n_trials" in sweeper
    intervals = [key for key, parameter in parameters.items() if "values" not in parameter]
    if intervals and not searched:
        raise UserError(f"{intervals[0]} is an interval: use hydra/sweeper=optuna to search it.")
    if intervals and sweeper.sampler == "grid":
        raise UserError(f"hydra.sweeper.sampler=grid needs values for {intervals[0]}.")
    if not searched or sweeper.sampler == "grid":
        return {"method": "grid"}
    # Bayesian search looks a parameter up in the config of a run. There, the name of a group
    # holds all options of the group, not the name of the choice.
    bayes = sweeper.sampler == "tpe" and not groups
    return {"method": "bayes" if bayes else "random", "run_cap": int(sweeper.n_trials)}


def _parameter(override: Override) -> dict[str, Any]:
    """Describe an override as a parameter of W&B."""
    sweep = override.value()
    if isinstance(sweep, RangeSweep):
        return {"values": list(sweep.range())}
    if not isinstance(sweep, IntervalSweep):
        return {"values": [_value(text) for text in override.sweep_string_iterator()]}
    low, high, log = bounds_of(override)
    whole = isinstance(low, int) and isinstance(high, int)
    if log and whole:
        kind: dict[str, Any] = {"distribution": "q_log_uniform_values", "q": 1}
    elif log:
        kind = {"distribution": "log_uniform_values"}
    else:
        kind = {"distribution": "int_uniform" if whole else "uniform"}
    return {**kind, "min": low, "max": high}


def _value(text: str) -> Any:
    """Convert numbers, so that W&B can plot them; leave other values as they are typed."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
