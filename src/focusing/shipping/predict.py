"""``focusing predict``: what a network says about files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from focusing.errors import printable
from focusing.shipping.card import Card, card_of
from focusing.shipping.formats import Run, read
from focusing.shipping.samples import read_samples

BATCH = 1024


def predict(given: argparse.Namespace) -> None:
    """Run the command."""
    run, card = load_model(given.model, trust=given.trust)
    answers = [answer for path in given.inputs for answer in ask(run, card, path, given.top)]
    if given.json:
        print(json.dumps(answers, indent=1))
    else:
        Console(soft_wrap=True).print(_table(answers, bool(card.classes)))


def load_model(path: Path, *, trust: bool = False) -> tuple[Run, Card]:
    """A network from an exported file or a run folder, and its card.

    Args:
        path: of either.
        trust: take files that are programs.
    """
    if path.is_dir():
        from focusing.shipping.trained import load_run  # with all that trains

        run = load_run(path)
        return run.net.to_inference(), card_of(run, run.net)
    return read(path, trust=trust)


@torch.no_grad()
def ask(run: Run, card: Card, path: Path, top: int = 1) -> list[dict[str, Any]]:
    """What a network says about each sample of a file.

    Args:
        run: the network.
        card: its card.
        path: the file.
        top: so many classes.

    Returns:
        ``input``, and ``classes`` with their probabilities, best first, or the ``value``.
    """
    samples = read_samples(path, card)
    names = [str(path)] if len(samples) == 1 else [f"{path}[{n}]" for n in range(len(samples))]
    outputs = torch.cat(
        [run(card.prepare(samples[at : at + BATCH])) for at in range(0, len(samples), BATCH)]
    )
    if not card.classes:
        values = outputs.flatten().tolist()
        return [{"input": name, "value": value} for name, value in zip(names, values, strict=True)]
    answers = []
    for name, row in zip(names, probabilities(outputs), strict=True):
        best = row.topk(min(top, len(row)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        answers.append({"input": name, "classes": {card.classes[k]: p for k, p in pairs}})
    return answers


def probabilities(outputs: Tensor) -> Tensor:
    """Of each class, (N, classes); two classes may have one output, the logit of the second."""
    if outputs.shape[1] == 1:
        second = outputs.sigmoid()
        return torch.cat([1 - second, second], dim=1)
    return outputs.softmax(1)


def _table(answers: Sequence[dict[str, Any]], classes: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("input", overflow="fold")
    if not classes:
        table.add_column("value", justify="right")
        for answer in answers:
            table.add_row(escape(printable(answer["input"])), f"{answer['value']:.4g}")
        return table
    table.add_column("class")
    table.add_column("probability", justify="right")
    for answer in answers:
        name = escape(printable(answer["input"]))
        for label, probability in answer["classes"].items():
            table.add_row(name, escape(printable(label)), f"{100 * probability:.2f} %")
            name = ""
    return table
