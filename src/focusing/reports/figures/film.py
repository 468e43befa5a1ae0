"""A film of moving foci."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from focusing.drawing import MAX_CURVES, evenly_spaced
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_runs import Edition, editions, foci_of, sample, typical
from focusing.reports.foci import Foci
from focusing.reports.names import data_name, model_name
from focusing.reports.tables.settings import Setting, settings_of
from focusing.results.collect import Collection, Run
from focusing.results.frame import FOCI

TITLE = "Moving foci"
PREFERRED = ("learning_to_focus", "sides")
FRAMES, FPS = 40, 8


def film_charts(collection: Collection) -> Drawn:
    """One film: of the network that learns to focus, or else where foci moved most."""
    found = [
        (edition, setting)
        for edition in editions(collection)
        for setting in settings_of(edition.runs)
        if _moved(setting)
    ]
    drawn: Drawn = []
    for edition, setting in sorted(found, key=_preference):
        run = typical(setting.runs)
        foci = [each for each in foci_of(run, drawn) if each.mu.shape[2] <= 2]
        if foci and len(foci[0].epochs) > 1:
            return [*drawn, _chart(edition, setting, run, foci[0])]
    return [*drawn, missing(TITLE, "learning_to_focus")]


def _moved(setting: Setting) -> float:
    moved = setting.measured.get(FOCI["moved"][0])
    return moved.mean if moved else 0.0


def _preference(found: tuple[Edition, Setting]) -> tuple[int, float]:
    edition, setting = found
    return [*PREFERRED, edition.experiment].index(edition.experiment), -_moved(setting)


def _chart(edition: Edition, setting: Setting, run: Run, foci: Foci) -> Chart:
    neurons = evenly_spaced(foci.mu.shape[1], MAX_CURVES if foci.tau.shape[1] == 1 else 40)
    axes = range(foci.mu.shape[2])
    rows = tuple(
        {"epoch": int(foci.epochs[at]), "neuron": int(neuron)}
        | {f"mu{axis}": float(foci.mu[at, neuron, axis]) for axis in axes}
        | {f"sigma{axis}": float(foci.sigma[at, neuron, axis]) for axis in axes}
        for at in evenly_spaced(len(foci.mu), FRAMES)
        for neuron in neurons
    )
    about = f"{data_name(run.data)} ({run.source}), {model_name(run.model)}, {foci.layer}"
    about = ", ".join([about, *setting.label(), sample(run, setting.runs)])
    noise = " Grey: columns of noise." if foci.informative else ""
    return Chart(
        edition.name("film"),
        f"{TITLE} {edition.title}",
        f"{about}: {len(neurons)} of {foci.mu.shape[1]} neurons from the start to epoch "
        f"{foci.epochs[-1]}.{noise}",
        rows,
        partial(_film, foci),
        edition.tags(data=run.data, model=run.model),
        suffixes=(".gif",),
    )


def _film(foci: Foci) -> bytes:
    from focusing.drawing import film_layer

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "film.gif")
        film_layer(
            path, foci.epochs.tolist(), foci.tau, foci.mu, foci.sigma, foci.focus,
            foci.normalizer, informative=foci.informative, fps=FPS, frames=FRAMES,
        )  # fmt: skip
        return path.read_bytes()
