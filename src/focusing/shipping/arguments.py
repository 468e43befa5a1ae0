"""The options of ``focusing prune``, ``export`` and ``predict``.

``focusing COMMAND --help`` needs nothing else, so this module does not import torch. The commands
themselves are ``run(args)`` in the modules of their names.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from focusing.errors import UserError

SUFFIXES = {"onnx": ".onnx", "exported-program": ".pt2", "safetensors": ".safetensors"}
"""Formats of ``focusing export``, and how their files end."""


def add_prune_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``focusing prune RUN``."""
    parser.description = (
        "Drop the connections that neurons look away from (phi < t), and report what is left. "
        "Writes pruned.pt and pruning.json."
    )
    parser.add_argument("run", type=Path, help="run folder of a network that focuses")
    choice = parser.add_mutually_exclusive_group()
    _add_threshold(choice, "drop phi < t")
    choice.add_argument("--sparsity", type=float, metavar="s", help="drop this share, from 0 to 1")
    choice.add_argument(
        "--keep-accuracy",
        nargs="?",
        choices=("own", "twin"),
        const="own",
        help="the largest threshold with the accuracy of the unpruned network (the default), or "
        "of its dense twin",
    )
    parser.add_argument(
        "--dense-twin",
        type=Path,
        metavar="RUN",
        help="run folder of a dense network on the same data; its smallest weights are dropped",
    )
    parser.add_argument(
        "--finetune",
        type=_at_least(0, int, "--finetune"),
        default=0,
        metavar="EPOCHS",
        help="train what is left",
    )
    parser.add_argument("--out", type=Path, help="folder for the results; default: the run folder")
    parser.add_argument("--json", action="store_true", help="print pruning.json, no table")


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``focusing export RUN``."""
    parser.description = (
        "Write the network of a run as a file that works without this package's training. The "
        "file is run and compared with the network before this command says done."
    )
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--format", choices=list(SUFFIXES), default="onnx")
    parser.add_argument("--sparse", action="store_true", help="compute only what pruning left")
    choice = parser.add_mutually_exclusive_group()
    _add_threshold(choice, "drop phi < t first")
    choice.add_argument(
        "--pruned",
        nargs="?",
        type=Path,
        const=True,
        default=False,
        metavar="DIR",
        help="export what focusing prune left in this folder; default: the run folder",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="default: model.* in the run folder"
    )


def add_predict_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``focusing predict MODEL INPUT ...``."""
    parser.description = "Classify files, or predict a value for each."
    parser.add_argument("model", type=Path, help="an exported file, or a run folder")
    parser.add_argument(
        "inputs", type=Path, nargs="+", metavar="INPUT", help="image, wav, csv, npz or npy file"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, no table")
    parser.add_argument(
        "--top",
        type=_at_least(1, int, "--top"),
        default=1,
        metavar="N",
        help="print the N most likely classes",
    )
    parser.add_argument("--trust", action="store_true", help="run .pt2 files, which are programs")


def _add_threshold(group: Any, text: str) -> None:
    kind = _at_least(0, float, "--threshold")
    group.add_argument("--threshold", type=kind, metavar="t", help=text)


def _at_least(minimum: int, kind: type[int] | type[float], option: str) -> Callable[[str], float]:
    """Make a type for argparse: a finite number that is not below a minimum."""

    def parse(text: str) -> float:
        value = kind(text)
        if not minimum <= value < math.inf:
            raise UserError(f"{option} {text} must be a number, {minimum} or greater.")
        return value

    parse.__name__ = kind.__name__  # argparse names it in its messages
    return parse
