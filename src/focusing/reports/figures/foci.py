"""Foci of small networks before and after training, their paths, and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from focusing.drawing import MAX_CURVES
from focusing.reports.figures.chart import Chart, Drawn
from focusing.reports.figures.chart_runs import (
    MEASURED,
    Edition,
    editions,
    foci_of,
    never_run,
    sample,
    typical,
)
from focusing.reports.foci import Foci
from focusing.reports.names import data_name, model_name
from focusing.reports.run_figures import layer_figures
from focusing.reports.tables.settings import settings_of
from focusing.results.collect import Collection, Run

EXPECTED = {
    "learning_to_focus": "Foci that leave noise on the left",
    "sides": "Foci that leave noise on both sides",
    "stuck": "Foci that are stuck in noise",
}
MOST = 4
"""Settings of an experiment whose foci are drawn: a sweep would fill pages."""
TITLES = {
    "foci": "Foci before and after training",
    "trajectory": "Paths of the foci",
    "weights": "Focused weights before and after training",
}
CAPTIONS = {
    "foci": "Dotted: initial, solid: final.",
    "trajectory": "From the square to the triangle.",
    "weights": "Focused weights phi o W of single neurons; dotted: initial, solid: final.",
}


def foci_charts(collection: Collection) -> Drawn:
    """For each experiment with few neurons, and each of its settings, a typical run."""
    drawn: Drawn = []
    for edition in editions(collection):
        found = [
            (each.label(), each.model, list(each.runs))
            for each in settings_of(edition.runs)
            if each.runs[0].focus
        ]
        if len(found) > MOST or edition.experiment in MEASURED:
            continue
        for number, (options, model, runs) in enumerate(found):
            drawn += _charts(edition, number, options, model, runs)
    return [*drawn, *never_run(collection, EXPECTED)]


def _charts(
    edition: Edition, number: int, options: tuple[str, ...], model: str, runs: list[Run]
) -> Drawn:
    run = typical(runs)
    charts: Drawn = []
    for foci in foci_of(run, charts):
        if foci.mu.shape[1] > MAX_CURVES:
            continue
        about = f"{data_name(run.data)} ({run.source}), {model_name(model)}, {foci.layer}"
        about = ", ".join([about, *options, sample(run, runs)])
        noise = " Grey: columns of noise." if foci.informative else ""
        for what, rows in _rows(foci).items():
            place = [str(number + 1)] if number else []
            charts.append(
                Chart(
                    edition.name(what, *place, foci.layer),
                    f"{TITLES[what]} {edition.title}",
                    f"{about}. {CAPTIONS[what]}{noise}",
                    rows,
                    partial(_draw, foci, what),
                    edition.tags(data=run.data, model=model),
                )
            )
    return charts


def _draw(foci: Foci, what: str) -> Figure:
    return layer_figures(foci)[what]


def _rows(foci: Foci) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """For the CSV files: where the foci were at each time, and weights at both ends."""
    axes = range(foci.mu.shape[2])
    path = [
        {"epoch": int(epoch), "neuron": neuron}
        | {f"mu{_number(axis, axes)}": float(foci.mu[at, neuron, axis]) for axis in axes}
        | {f"sigma{_number(axis, axes)}": float(foci.sigma[at, neuron, axis]) for axis in axes}
        for at, epoch in enumerate(foci.epochs)
        for neuron in range(foci.mu.shape[1])
    ]
    found = {"foci": _phi(foci), "trajectory": tuple(path)}
    weights = tuple(
        {"neuron": int(neuron), "input": place, "initial": float(first), "final": float(last)}
        for neuron, firsts, lasts in zip(foci.shown, foci.first, foci.last, strict=True)
        for place, (first, last) in enumerate(zip(firsts, lasts, strict=True))
    )
    return found | ({"weights": weights} if len(axes) == 1 else {})


def _phi(foci: Foci) -> tuple[Mapping[str, Any], ...]:
    every = np.arange(foci.mu.shape[1])
    first, last = (foci.phi(at, every) for at in (0, -1))
    positions = [{"tau": float(tau[0])} if len(tau) == 1 else
                 {f"tau{axis}": float(value) for axis, value in enumerate(tau)}
                 for tau in foci.tau]  # fmt: skip
    return tuple(
        {"neuron": int(neuron), "input": place, **positions[place]}
        | {"initial": float(first[neuron, place]), "final": float(last[neuron, place])}
        for neuron in every
        for place in range(len(foci.tau))
    )


def _number(axis: int, axes: range) -> str:
    return "" if len(axes) == 1 else str(axis)
