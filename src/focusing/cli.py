"""The installed command ``focusing``: train, eval, show, report and all the others."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from focusing.errors import UserError, printable

if TYPE_CHECKING:  # this module must be imported in milliseconds
    from omegaconf import DictConfig

FULL_ERRORS = os.environ.get("HYDRA_FULL_ERROR") == "1"

HELP = """\
Networks whose neurons learn where to look.

  focusing train [group=option] [option=value] ...   train a network; --help lists options
  focusing eval RUN_DIR [data=...]                   test a trained network, also on other data
  focusing show RUN_DIR                              what a run did and scored
  focusing experiments [NAME ...] [size=quick] ...   the paper's experiments; what they cost here
  focusing report [FOLDERS] [--out DIR] [--serve]    tables, figures and a page from records
  focusing archive [FOLDERS] [--out DIR]             all records in small files, to publish them
  focusing prune RUN_DIR [--sparsity s] ...          drop what neurons look away from
  focusing export RUN_DIR [--format onnx] ...        a file that works elsewhere; --sparse: faster
  focusing predict MODEL INPUT ...                   classify image, wav, csv and npz files
  focusing wandb push [FOLDERS] [--dry-run]          send finished runs to W&B, each once
  focusing wandb dashboard [--save FILE.py]          a W&B workspace that compares them
  focusing wandb sweep [group=a,b] ... [--out FILE]  a W&B sweep of any multirun, for agents
  focusing data list                                 every data set, and where it is
  focusing data get NAME ...                         download it
  focusing data check [NAME ...]                     read what is there, say what it holds
  focusing data show NAME [data.option=value] ...    draw samples and classes
  focusing --version

train, eval, prune, export, predict: --trust-target MODULE.CLASS lets a config name your own code.
"""


ELSEWHERE = {
    "report": ("focusing.reports.report", "main"),
    "archive": ("focusing.reports.archive", "main"),
    "prune": ("focusing.shipping.prune_command", "prune"),
    "export": ("focusing.shipping.export", "export"),
    "predict": ("focusing.shipping.predict", "predict"),
}
"""Commands that read their arguments themselves: module and function, imported when called."""


def main() -> None:
    """Run the command of ``sys.argv``."""
    command, *arguments = sys.argv[1:] or ["--help"]
    with reporting_errors():
        if command == "train":
            _train(arguments)
        elif command == "eval":
            _evaluate(arguments)
        elif command == "show":
            _show(arguments)
        elif command == "experiments":
            _experiments(arguments)
        elif command in ELSEWHERE:
            module, function = ELSEWHERE[command]
            getattr(import_module(module), function)(arguments)
        elif command == "wandb":
            _wandb(arguments)
        elif command == "data":
            _data(arguments)
        elif command in ("--version", "-V"):
            from focusing import __version__

            print(__version__)
        elif command in ("--help", "-h", "help"):
            print(HELP, end="")
        else:
            raise UserError(f"focusing {command} is not a command; focusing --help lists them.")


@contextmanager
def reporting_errors() -> Iterator[None]:
    """End the process as a command should: a sentence and code 1, or 130 and 143 for signals.

    HYDRA_FULL_ERROR=1 in the environment shows where an error comes from.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands errors on instead of printing its own way
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None or FULL_ERRORS:
            raise
        print(f"Error: {printable(sentence)}", file=sys.stderr)
        sys.exit(1)


def _sentence(error: Exception) -> str | None:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, MemoryError) or "t allocate memory" in str(error):  # torch's RuntimeError
        return f"There is not enough memory for this: {' '.join(str(error).split())}."
    from focusing.compose import explain

    return explain(error)


def _train(overrides: list[str]) -> None:
    import hydra

    from focusing.compose import config_dir, prepare_hydra

    prepare_hydra()
    sys.argv = ["focusing train", *overrides]
    take_trust()
    hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="train")(train_job)()


def take_trust() -> None:
    """Take ``--trust-target`` from the command line, before Hydra reads it."""
    from focusing.instantiate import TRUSTING

    _, sys.argv[1:] = TRUSTING.parse_known_args(sys.argv[1:])
    if any(argument.startswith("--experimental-rerun") for argument in sys.argv):
        raise UserError(
            "--experimental-rerun is refused: it would run code from a pickle. The command that "
            "began a run goes on with it, or shows it again."
        )


def train_job(cfg: DictConfig) -> float | None:
    """Call :func:`focusing.run.train` as a command does."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    if HydraConfig.get().mode == RunMode.MULTIRUN:
        return _run_job(cfg)  # Hydra notes the error and goes on with the other jobs
    with reporting_errors():
        return _run_job(cfg)


def _run_job(cfg: DictConfig) -> float | None:
    from focusing.sweep.table1.trials import apply_trial

    if cfg.sweep.stacked and cfg.sweep.trial is None:
        from focusing.sweep.table1.run import run_stacked

        return run_stacked(cfg)
    from focusing.run import train  # torch takes seconds: first let Hydra find fault

    apply_trial(cfg)
    return train(cfg)


def _evaluate(arguments: list[str]) -> None:
    from focusing.instantiate import TRUSTING

    _, arguments = TRUSTING.parse_known_args(arguments)
    run_dir, overrides = _run_dir(arguments, "eval")
    from focusing.run import evaluate

    for name, value in evaluate(run_dir, overrides).items():
        print(name, value)


def _show(arguments: list[str]) -> None:
    run_dir, rest = _run_dir(arguments, "show")
    if rest:
        raise UserError(f"focusing show takes one folder, not also {rest[0]}.")
    from rich.console import Console

    from focusing.reports.terminal import summary
    from focusing.results.store import read_record

    record = read_record(run_dir)
    if record is None:
        begun = (run_dir / "config.yaml").exists()
        raise UserError(
            f"{run_dir} has no result.json: " + ("not finished." if begun else "not a run folder.")
        )
    console = Console(soft_wrap=True)
    console.print(summary(record, str(run_dir)))
    for figure in sorted(run_dir.glob("figures/*.png")):
        console.print(str(figure))


def _experiments(arguments: list[str]) -> None:
    if arguments[:1] in (["--help"], ["-h"]):
        print(next(each.strip() for each in HELP.splitlines() if "focusing experiments" in each))
        return
    from focusing.sweep.listing import list_experiments

    list_experiments(arguments)


def _wandb(arguments: list[str]) -> None:
    action, *rest = arguments or ["--help"]
    if action in ("--help", "-h"):
        print("\n".join(each.strip() for each in HELP.splitlines() if "focusing wandb" in each))
    elif action == "push":
        from focusing.reports.upload.push import push

        push(rest)
    elif action == "dashboard":
        from focusing.reports.upload.dashboard import dashboard

        dashboard(rest)
    elif action == "sweep":
        from focusing.sweep.wandb_sweep import write_sweep

        write_sweep(rest)
    else:
        raise UserError(f"focusing wandb {action} is not one of push, dashboard and sweep.")


def _data(arguments: list[str]) -> None:
    action, *rest = arguments or ["--help"]
    if action in ("--help", "-h"):
        print("\n".join(each.strip() for each in HELP.splitlines() if "focusing data" in each))
        return
    from focusing.data import commands

    if action == "list":
        commands.list_data()
    elif action == "get":
        commands.get_data(rest)
    elif action == "check":
        commands.check_data(rest)
    elif action == "show":
        from focusing.reports.data_picture import show_data

        show_data(rest)
    else:
        raise UserError(f"focusing data {action} is not one of list, get, check and show.")


def _run_dir(arguments: list[str], command: str) -> tuple[Path, list[str]]:
    if not arguments or arguments[0] in ("--help", "-h"):
        line = next(each for each in HELP.splitlines() if f"focusing {command}" in each)
        if not arguments:
            raise UserError(f"which run? {' '.join(line.split('  ')[1:2])}")
        print(line.strip())
        sys.exit(0)
    run_dir = Path(arguments[0])
    if not run_dir.is_dir():
        raise UserError(f"{run_dir} is not a folder.")
    return run_dir, arguments[1:]


if __name__ == "__main__":
    main()
