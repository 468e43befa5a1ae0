"""``focusing experiments``: what there is, where it is in the paper, and what it costs here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from focusing.sweep.cost import run_seconds, speed_of
from focusing.sweep.experiments import Experiment, configs, experiments, find, jobs

UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0))


def list_experiments(args: argparse.Namespace) -> None:
    """Print a table of experiments.

    Args:
        args: ``words`` are names, all if there are none, and overrides such as ``size=quick``;
            ``fresh`` measures also what was measured before.
    """
    overrides = [word for word in args.words if "=" in word]
    names = [word for word in args.words if "=" not in word]
    chosen = [find(name) for name in names] or list(experiments().values())
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("experiment", "paper", "what", "runs", "time here"):
        table.add_column(title, justify="right" if title in ("runs", "time here") else "left")
    console, whole = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 140), 0.0
    with Console(stderr=True).status("") as status:  # measuring takes seconds per network
        for each in chosen:
            status.update(f"measuring {each.name}")
            runs, seconds = cost(each, overrides, fresh=args.fresh)
            whole += seconds
            table.add_row(each.name, each.paper, each.about, str(runs), duration(seconds))
    console.print(table)
    console.print(
        f"\nIn all {duration(whole)}, one run after the other, estimated from a few steps of each "
        "network. hydra/launcher=local runs several at once."
    )


def cost(
    experiment: Experiment, overrides: Sequence[str], *, fresh: bool = False
) -> tuple[int, float]:
    """Number of runs of an experiment, and the seconds they take one after the other."""
    command = (f"experiment={experiment.name}", *overrides)
    runs = jobs(command)
    [(config, _)] = configs([command])
    if config["sweep"]["stacked"]:
        from focusing.sweep.table1.cost import stacked_seconds

        return len(runs), stacked_seconds(config, fresh=fresh)
    seconds = sum(
        count * run_seconds(config, speed_of(config, fresh=fresh))
        for config, count in configs(runs)
    )
    return len(runs), seconds


def duration(seconds: float) -> str:
    """Seconds as people say them: 40 s, 12 min, 3.5 h, 21 d."""
    for name, length in UNITS:
        if seconds >= 2 * length:
            number = seconds / length
            return (
                f"{number:.1f} {name}" if number < 10 and name != "min" else f"{number:.0f} {name}"
            )
    return f"{seconds:.0f} s"
