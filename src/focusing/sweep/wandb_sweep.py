"""``focusing wandb sweep``: any multirun as a W&B sweep, whose agents run our command."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.types import HydraContext, RunMode

from focusing.compose import config_dir, prepare_hydra
from focusing.errors import UserError
from focusing.sweep.expansion import validate
from focusing.sweep.outcome import Job
from focusing.sweep.parts import parse_parts

PROGRAM = "focusing"
REGRESSION = "boston"
"""Its score is an error: less is better."""
HEAD = "# wandb sweep {file} prints an id; on each machine: wandb agent ENTITY/{project}/ID\n"


def write_sweep(options: argparse.Namespace) -> None:
    """Run the command with its arguments."""
    project = options.project or "focusing"
    account = {"project": project} | ({"entity": options.entity} if options.entity else {})
    found = sweeps(options.overrides, account)
    for part, sweep in found.items():
        out: Path = options.out
        if len(found) > 1:
            out = out.with_stem(f"{out.stem}_{part}")
        content = yaml.safe_dump(sweep, sort_keys=False, default_flow_style=None, width=100)
        text = HEAD.format(file=out, project=project) + content
        if options.dry_run:
            print(f"---\n{text}" if len(found) > 1 else text, end="")
        else:
            out.write_text(text, encoding="utf-8")
            print(f"{out}: {size(sweep)}. Next: wandb sweep {out}")


def sweeps(overrides: Sequence[str], account: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The W&B sweeps of a multirun: one, or one for each part of a table that is no rectangle.

    Args:
        overrides: the command line of ``focusing train -m``.
        account: project, and maybe entity. An agent logs to those of its sweep whatever the
            command says; but it is also said, for ``focusing wandb push`` to find the run.
    """
    prepare_hydra()
    logged = ["logger=wandb", *(f"logger.wandb.{key}={name}" for key, name in account.items())]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        context = HydraContext(config_loader=loader, callbacks=Callbacks())
        config = loader.load_configuration("train", list(overrides), run_mode=RunMode.MULTIRUN)
        sweeper = config.hydra.sweeper
        own = [each for each in overrides if not each.lstrip("+~").startswith(("hydra.", "hydra/"))]
        parts = parse_parts(context, sweeper.get("params"), sweeper.get("parts"), own)
        found = {}
        for name, part in parts.items():
            swept = {each.get_key_element(): each for each in part if each.is_sweep_override()}
            if not swept:
                raise UserError(
                    "There is nothing to sweep: give values, as in model=dense,focus_s seed=0,17."
                )
            parameters = {key: _parameter(each) for key, each in swept.items()}
            fixed = [each.input_line or "" for each in part if not each.is_sweep_override()]
            validate(context, config, list(_examples(parameters, fixed)))
            groups = {key for key in parameters if loader.get_group_options(key)}
            if not any(each.startswith("logger") for each in fixed):
                fixed = [*logged, *fixed]
            data = parameters.get("data", {}).get("values", [])
            only = f"data={REGRESSION}" in fixed or data == [REGRESSION]
            goal = "minimize" if only else "maximize"
            title = config.name if len(parts) == 1 else f"{config.name} {name}"
            found[name] = {
                **account,
                "name": title,
                "program": PROGRAM,
                **_method(sweeper, parameters, groups),
                "metric": {
                    "name": f"score/{config.protocol.name}",
                    "goal": sweeper.get("direction") or goal,
                },
                "parameters": parameters,
                # An agent gives one value of each parameter: no multirun within it.
                "command": [
                    "${env}",
                    "${program}",
                    "train",
                    "hydra.mode=RUN",
                    *fixed,
                    "${args_no_hyphens}",
                ],
            }
        return found


def size(sweep: Mapping[str, Any]) -> str:
    """How many runs a sweep has."""
    if sweep["method"] != "grid":
        return f"a {sweep['method']} search of {sweep['run_cap']} runs"
    number = 1
    for each in sweep["parameters"].values():
        number *= len(each["values"])
    return f"{number} runs"


def _method(sweeper: Any, parameters: Mapping[str, Any], groups: set[str]) -> dict[str, Any]:
    """How W&B chooses: everything, or as ``hydra/sweeper=optuna`` would."""
    searched = "n_trials" in sweeper
    intervals = [key for key, each in parameters.items() if "values" not in each]
    if not searched and not intervals:
        return {"method": "grid"}
    if not searched:
        raise UserError(f"{intervals[0]} is an interval: say hydra/sweeper=optuna to search it.")
    if sweeper.sampler == "grid":
        if intervals:
            raise UserError(f"hydra.sweeper.sampler=grid needs values for {intervals[0]}.")
        return {"method": "grid"}
    # Bayesian search looks a parameter up in the config of each run, where the name of a group
    # stands for all its options and not for the choice.
    bayes = sweeper.sampler == "tpe" and not groups
    return {"method": "bayes" if bayes else "random", "run_cap": int(sweeper.n_trials)}


def _parameter(override: Override) -> dict[str, Any]:
    sweep = override.value()
    if isinstance(sweep, RangeSweep):
        return {"values": list(sweep.range())}
    if isinstance(sweep, IntervalSweep):
        low, high, log = sweep.start, sweep.end, "log" in sweep.tags
        if low is None or high is None or not low < high or (log and low <= 0):
            raise UserError(f"{override.input_line} is not an interval that can be searched.")
        whole = isinstance(low, int) and isinstance(high, int)
        if log:
            kind = {"distribution": "q_log_uniform_values", "q": 1} if whole else None
            return {**(kind or {"distribution": "log_uniform_values"}), "min": low, "max": high}
        kind = {"distribution": "int_uniform" if whole else "uniform"}
        return {**kind, "min": low, "max": high}
    return {"values": [_value(each) for each in override.sweep_string_iterator()]}


def _value(text: str) -> Any:
    """A number if it is typed as one, so that W&B can draw it; other values as they are typed."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _examples(parameters: Mapping[str, Any], fixed: Sequence[str]) -> Iterator[Job]:
    """Jobs in which every value occurs."""
    values = {key: each.get("values") or [each["min"]] for key, each in parameters.items()}
    for place in range(max(map(len, values.values()))):
        swept = [f"{key}={each[place % len(each)]}" for key, each in values.items()]
        yield Job(place, (*fixed, *swept))
