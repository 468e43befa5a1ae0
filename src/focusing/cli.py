"""The ``focusing`` command: argument parsing, dispatch and error reporting.

Every command declares its arguments here and names the function that runs it. The module of that
function is imported only when the command runs, so ``--help`` is instant.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focusing import __version__
from focusing.arguments import Parser, existing_folder, number_between, run_path
from focusing.errors import UserError, printable

if TYPE_CHECKING:
    from omegaconf import DictConfig

FULL_ERRORS = os.environ.get("HYDRA_FULL_ERROR") == "1"


def main() -> None:
    """Run the command in ``sys.argv``."""
    with reporting_errors():
        run_command(sys.argv[1:])


def run_command(arguments: Sequence[str]) -> None:
    """Run a command, given the words after ``focusing``."""
    parser, commands = build_parser()
    typed = [" ".join(arguments[:words]) for words in (2, 1)]  # "wandb push", or "prune"
    name = next((name for name in typed if name in commands), None)
    if name == "train":  # Hydra reads the arguments
        _train(list(arguments[1:]))
    elif name is None:  # help, version or an unknown command
        parser.parse_args(arguments or ["--help"])
    else:
        # Options may come before, between and after the other arguments.
        args = commands[name].parse_intermixed_args(arguments[len(name.split()) :])
        if getattr(args, "trust_target", None):
            from focusing.instantiate import trust

            trust(args.trust_target)
        module, _, function = args.runs.partition(":")
        getattr(import_module(module), function)(args)


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser of the whole command line, and the parser of every command by its full name."""
    parser = Parser("focusing", description="Networks whose neurons learn where to look.")
    parser.add_argument("-V", "--version", action="version", version=__version__)
    groups = {"": parser.add_subparsers(metavar="COMMAND", title="commands", required=True)}
    commands: dict[str, Parser] = {}

    def add(name: str, runs: str, about: str, description: str = "", **more: Any) -> Parser:
        group, _, last = name.rpartition(" ")
        sentence = description or f"{about[0].upper()}{about[1:]}."
        command = groups[group].add_parser(last, help=about, description=sentence, **more)
        command.set_defaults(runs=runs)
        commands[name] = command
        return command

    add("train", "", "train a network; focusing train --help lists its options", add_help=False)
    _add_run_commands(add)
    _add_shipping_commands(add)
    _add_report_commands(add)
    for name, about in (("wandb", "finished runs and sweeps in W&B"), ("data", "the data sets")):
        group = groups[""].add_parser(name, help=about)
        groups[name] = group.add_subparsers(metavar="COMMAND", title="commands", required=True)
    _add_wandb_commands(add)
    _add_data_commands(add)
    completion = add(
        "completion",
        "focusing.cli:_print_completion",
        "print a script that completes these commands in a shell",
        'Print a completion script: eval "$(focusing completion bash)". For the options of '
        "focusing train, add the output of focusing train --shell-completion install=bash.",
    )
    completion.add_argument("shell", choices=("bash", "zsh"))
    return parser, commands


def _add_run_commands(add: Any) -> None:
    doctor = add(
        "doctor",
        "focusing.doctor:run",
        "say what this machine offers, and test every device",
        "Say what this machine offers, then test each device for about ten seconds. Send the "
        "output with a report. The exit code is 1 if something is broken.",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON, no table")
    evaluate = add(
        "eval", "focusing.cli:_evaluate", "test a trained network again, also on other data"
    )
    evaluate.add_argument(
        "run", type=existing_folder, metavar="RUN_DIR", help="folder of a finished run"
    )
    _add_overrides(evaluate, "data.OPTION=VALUE", "change the data: data.fold=3, data=fashion")
    _add_trust(evaluate)
    why = add(
        "explain",
        "focusing.origins:explain_option",
        "say which file gave an option its value",
        "Say which file, recipe or argument gave an option its value: every layer that sets it, "
        "the last one wins. Example: focusing explain model=focus_s data=fashion optim.lr_sigma",
    )
    about = "options of focusing train, and the option or group to explain"
    why.add_argument("words", nargs="+", metavar="OVERRIDES KEY", help=about)
    show = add(
        "show", "focusing.reports.terminal:show", "say what a run did and scored, or list runs"
    )
    about = "folder of a finished run, or a folder with runs below it"
    show.add_argument("run", type=existing_folder, metavar="RUN_DIR", help=about)
    experiments = add(
        "experiments",
        "focusing.experiments.listing:list_experiments",
        "list the paper's experiments, and what they cost here",
    )
    about = "experiments (default: all), and options of focusing train such as size=quick"
    experiments.add_argument("words", nargs="*", metavar="NAME", help=about)
    experiments.add_argument("--fresh", action="store_true", help="measure everything again")


def _add_shipping_commands(add: Any) -> None:
    prune = add(
        "prune",
        "focusing.shipping.prune:run",
        "drop what neurons look away from",
        "Drop the connections that neurons look away from (phi < t), and say what is left. "
        "Writes pruned.pt and pruning.json.",
    )
    prune.add_argument("run", type=run_path, metavar="RUN_DIR", help="run of a focusing network")
    choice = prune.add_mutually_exclusive_group()
    phi = number_between(float, 0)
    choice.add_argument("--threshold", type=phi, metavar="t", help="drop phi < t")
    choice.add_argument("--sparsity", type=float, metavar="s", help="drop this share, from 0 to 1")
    choice.add_argument(
        "--keep-accuracy",
        nargs="?",
        choices=("own", "twin"),
        const="own",
        help="the largest threshold as accurate as the unpruned network (own), or as its twin",
    )
    about = "run folder of a dense network on the same data; its smallest weights are dropped"
    prune.add_argument("--dense-twin", type=run_path, metavar="RUN_DIR", help=about)
    count, about = number_between(int, 0), "train what is left"
    prune.add_argument("--finetune", type=count, default=0, metavar="EPOCHS", help=about)
    prune.add_argument("--out", type=Path, help="folder for the results (the run folder)")
    prune.add_argument("--json", action="store_true", help="print pruning.json, no table")
    _add_trust(prune)

    export = add(
        "export",
        "focusing.shipping.export:run",
        "write a network as a file that works elsewhere",
        "Write the network of a run as a file that works without this package's training. The "
        "file is run and compared with the network before this command says done.",
    )
    export.add_argument("run", type=run_path, metavar="RUN_DIR", help="run folder")
    formats = ("onnx", "exported-program", "safetensors")
    export.add_argument("--format", choices=formats, default="onnx", help="(onnx)")
    export.add_argument("--sparse", action="store_true", help="compute only what pruning left")
    choice = export.add_mutually_exclusive_group()
    choice.add_argument("--threshold", type=phi, metavar="t", help="drop phi < t first")
    choice.add_argument(
        "--pruned",
        nargs="?",
        type=Path,
        const=True,
        default=False,
        metavar="DIR",
        help="what focusing prune left in this folder (the run folder)",
    )
    export.add_argument("--out", type=Path, metavar="FILE", help="(model.* in the run folder)")
    _add_trust(export)

    predict = add("predict", "focusing.shipping.predict:run", "classify files")
    predict.add_argument("model", type=Path, metavar="MODEL", help="exported file, or run folder")
    about = "image, wav, csv or npz file"
    predict.add_argument("inputs", type=Path, nargs="+", metavar="INPUT", help=about)
    predict.add_argument("--json", action="store_true", help="print JSON, no table")
    count, about = number_between(int, 1), "print the N likeliest classes (1)"
    predict.add_argument("--top", type=count, default=1, metavar="N", help=about)
    predict.add_argument("--trust", action="store_true", help="run .pt2 files, which are programs")
    _add_trust(predict)


def _add_report_commands(add: Any) -> None:
    report = add(
        "report",
        "focusing.reports.report:main",
        "make tables, figures and a page from the records of finished runs",
    )
    _add_folders(report)
    report.add_argument("--out", type=Path, default=Path("report"), help="output folder (report)")
    about = "show it in a browser, and update it whenever a run has finished"
    report.add_argument("--serve", action="store_true", help=about)
    port, about = number_between(int, 0, 65535), "port of --serve; 0 for any free port (8000)"
    report.add_argument("--port", type=port, default=8000, help=about)
    archive = add(
        "archive",
        "focusing.reports.archive:main",
        "pack all records into small files, to publish them",
        "Pack records, without checkpoints, into small files that focusing report reads. Records "
        "that are already there stay.",
    )
    _add_folders(archive, "outputs")
    about = "output folder (results)"
    archive.add_argument("--out", type=Path, default=Path("results"), help=about)


def _add_wandb_commands(add: Any) -> None:
    push = add(
        "wandb push",
        "focusing.reports.wandb_push:push",
        "send finished runs to W&B, once",
        "Send finished runs to W&B; runs that are already there are skipped.",
    )
    _add_folders(push)
    about = "also send every random trial as a run, not only a table of them"
    push.add_argument("--trials", action="store_true", help=about)
    dashboard = add(
        "wandb dashboard",
        "focusing.reports.wandb_dashboard:dashboard",
        "make a W&B workspace that compares runs",
    )
    _add_folders(dashboard)
    dashboard.add_argument("--name", default="Focusing", help="name of the workspace (Focusing)")
    about = "write Python code that makes it, to edit and run"
    dashboard.add_argument("--save", type=Path, metavar="FILE.py", help=about)
    sweep = add(
        "wandb sweep",
        "focusing.sweep.wandb_sweep:write_sweep",
        "write a W&B sweep of any multirun, for agents",
        "Write a W&B sweep of a multirun: experiment=table2_simple, or model=dense,focus_s "
        "seed=0,17. Agents run focusing train with logger=wandb.",
    )
    _add_overrides(sweep, "OPTION=VALUES", "as of focusing train -m")
    sweep.add_argument("-m", "--multirun", action="store_true", help=argparse.SUPPRESS)
    sweep.add_argument("--out", type=Path, default=Path("sweep.yaml"), help="file (sweep.yaml)")
    for command in (push, dashboard, sweep):
        command.add_argument("--project", help="W&B project (focusing)")
        command.add_argument("--entity", help="W&B user or team (the one of your key)")
        command.add_argument("--dry-run", action="store_true", help="only print what it would do")


def _add_data_commands(add: Any) -> None:
    add("data list", "focusing.data.commands:list_data", "list all data sets and their folders")
    get = add("data get", "focusing.data.commands:get_data", "download missing files")
    get.add_argument("names", nargs="+", metavar="NAME", help="a data set")
    about = "read the files that are there, and say what they hold"
    check = add("data check", "focusing.data.commands:check_data", about)
    check.add_argument("names", nargs="*", metavar="NAME", help="a data set")
    show = add("data show", "focusing.reports.data_picture:show_data", "draw samples and classes")
    show.add_argument("name", metavar="NAME", help="a data set")
    _add_overrides(show, "data.OPTION=VALUE", "change the data: data.limit_train=100")


def _add_folders(parser: Parser, default: str = "outputs and results") -> None:
    about = f"folders to search for records ({default})"
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=about)


def _add_overrides(parser: Parser, metavar: str, about: str) -> None:
    parser.add_argument("overrides", nargs="*", metavar=metavar, help=about)


def _add_trust(parser: Parser) -> None:
    about = "allow a network, data set or callback of your own in configs; may be repeated"
    parser.add_argument("--trust-target", action="append", metavar="MODULE.CLASS", help=about)


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Print errors as one sentence and exit with code 1; signals exit with 130 and 143.

    HYDRA_FULL_ERROR=1 in the environment shows the traceback.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints errors in its own way
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has ended, as with | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        message = _error_message(error)
        if message is None or FULL_ERRORS:
            raise
        print(f"Error: {printable(message)}", file=sys.stderr)
        sys.exit(1)


def _error_message(error: Exception) -> str | None:
    if isinstance(error, UserError):
        return str(error)
    from focusing.messages import user_message  # importing Hydra is slow

    return user_message(error)


def _train(overrides: list[str]) -> None:
    import hydra

    from focusing.compose import config_dir, prepare_hydra

    prepare_hydra()
    sys.argv = ["focusing train", *overrides]
    parse_trust_and_help()
    hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="train")(train_job)()


def parse_trust_and_help() -> None:
    """Handle ``--trust-target`` and ``--help``, which Hydra must not see."""
    from focusing.instantiate import trust

    parser = Parser(add_help=False, allow_abbrev=False)
    _add_trust(parser)
    args, sys.argv[1:] = parser.parse_known_args(sys.argv[1:])
    trust(args.trust_target or ())
    if {"-h", "--help"} & set(sys.argv):
        from focusing.origins import help_text

        print(help_text([word for word in sys.argv[1:] if not word.startswith("-")]), flush=True)
        sys.exit()
    if any(argument.startswith("--experimental-rerun") for argument in sys.argv):
        raise UserError(
            "--experimental-rerun is refused: it would run code from a pickle. Repeat the command "
            "that began the run: it resumes the run, or shows it again."
        )
    _check_flags(sys.argv[1:])


def _check_flags(words: Sequence[str]) -> None:
    """Refuse a command line that Hydra would answer with the usage of its parser."""
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.error = partial(Parser.error, parser)  # type: ignore[method-assign, arg-type]
    _, unknown = parser.parse_known_args(words)
    if unknown and unknown[0].startswith("-"):
        name = unknown[0].lstrip("-").partition("=")[0]
        raise UserError(f"{unknown[0]} is not a flag: options are written {name}=VALUE.")
    if unknown:
        raise UserError(f"{unknown[0]}: put -m and other flags first, before the options.")


def train_job(cfg: DictConfig) -> float | None:
    """Run one job of Hydra: :func:`focusing.run.train`, with errors reported as in any command."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from focusing.experiments.table1_trials import run_job

    if HydraConfig.get().mode == RunMode.MULTIRUN:
        return run_job(cfg)  # the sweep records the error and continues with the other jobs
    with reporting_errors():
        return run_job(cfg)


def _evaluate(args: argparse.Namespace) -> None:
    from focusing.shipping.trained import evaluate

    for name, value in evaluate(args.run, args.overrides).items():
        print(name, f"{100 * value:.2f} %" if name.endswith("acc") else f"{value:.6g}")


def _print_completion(args: argparse.Namespace) -> None:
    import shtab

    print(shtab.complete(build_parser()[0], args.shell))


if __name__ == "__main__":
    main()
