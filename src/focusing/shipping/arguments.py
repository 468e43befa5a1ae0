"""The command lines of prune, export and predict."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from focusing.errors import Parser, UserError
from focusing.instantiate import TRUSTING


def _check_threshold(threshold: float | None) -> None:
    if threshold is not None and not 0 <= threshold < math.inf:
        raise UserError(f"--threshold {threshold:g} must be a number, 0 or greater.")


def prune_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """``focusing prune RUN --threshold t``."""
    parser = Parser(
        "focusing prune",
        parents=[TRUSTING],
        description="Drop the connections that neurons look away from (phi < t), and say what is "
        "left. Writes pruned.pt and pruning.json.",
    )
    parser.add_argument("run", type=Path, help="run folder of a network that focuses")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--threshold", type=float, metavar="t", help="drop phi < t")
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
        "--finetune", type=int, default=0, metavar="EPOCHS", help="train what is left"
    )
    parser.add_argument("--out", type=Path, help="folder for the results; the run folder")
    parser.add_argument("--json", action="store_true", help="print pruning.json, no table")
    given = parser.parse_args(arguments)
    _check_threshold(given.threshold)
    if given.finetune < 0:
        raise UserError(f"--finetune {given.finetune} must be 0 or greater.")
    if given.keep_accuracy == "twin" and given.dense_twin is None:
        raise UserError("--keep-accuracy twin: which one? Add --dense-twin RUN.")
    return given


def export_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """``focusing export RUN --format onnx``."""
    from focusing.shipping.formats import SUFFIXES

    parser = Parser(
        "focusing export",
        parents=[TRUSTING],
        description="Write the network of a run as a file that works without this package's "
        "training; it is run and compared with the network before this command says done.",
    )
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--format", choices=list(SUFFIXES), default="onnx")
    parser.add_argument("--sparse", action="store_true", help="compute only what pruning left")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--threshold", type=float, metavar="t", help="drop phi < t first")
    choice.add_argument(
        "--pruned",
        nargs="?",
        type=Path,
        const=True,
        default=False,
        metavar="DIR",
        help="what focusing prune left in this folder; the run folder",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="default: model.* in the run folder"
    )
    given = parser.parse_args(arguments)
    _check_threshold(given.threshold)
    return given


def predict_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """``focusing predict MODEL INPUT ...``."""
    parser = Parser("focusing predict", parents=[TRUSTING], description="Classify files.")
    parser.add_argument("model", type=Path, help="an exported file, or a run folder")
    parser.add_argument(
        "inputs", type=Path, nargs="+", metavar="INPUT", help="image, wav, csv, npz"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, no table")
    parser.add_argument("--top", type=int, default=1, metavar="N", help="so many classes of each")
    parser.add_argument(
        "--trust", action="store_true", help="run .pt and .pt2 files, which are programs"
    )
    given = parser.parse_args(arguments)
    if given.top < 1:
        raise UserError(f"--top {given.top} must be at least 1.")
    return given
