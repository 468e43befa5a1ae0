"""The figures of one run, from its ``result.json`` and ``focus.npz`` alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from focusing.drawing import foci_figure
from focusing.errors import DamagedError
from focusing.reports.foci import Foci, read_foci
from focusing.reports.panels import series_figure, trajectory_figure, weights_figure
from focusing.reports.style import save
from focusing.reports.tables import file_name
from focusing.results.store import FIGURES_COMPLETE, atomic_write, read_record

log = logging.getLogger(__name__)


def draw_run(run_dir: Path) -> list[Path]:
    """Draw a run's figures into ``figures/``, each as PNG and SVG.

    For each focused layer: ``foci_<layer>`` (initial dotted, final solid), ``trajectory_<layer>``
    (square start, triangle end) and ``weights_<layer>`` (phi o W before and after); for the run
    ``losses``. A run without focused layers gets the last only.

    Args:
        run_dir: the run folder.

    Each file is there whole or not at all, and at the end a stamp: see
    :func:`focusing.results.store.has_figures`. What cannot be drawn is left out with a warning.

    Returns:
        The files.
    """
    record = read_record(run_dir) or {}
    folder = run_dir / "figures"
    paths = []
    figure = series_figure(record.get("series") or {}, record.get("scores") or {})
    if figure is not None:
        paths += save(figure, folder, "losses")
    try:
        foci = read_foci(run_dir, record.get("data") or {})
    except DamagedError as error:
        log.warning("%s Its foci are not drawn.", error)
        foci = []
    for each in foci:
        for what, drawn in layer_figures(each).items():
            paths += save(drawn, folder, file_name(what, each.layer))
    folder.mkdir(exist_ok=True)
    atomic_write(run_dir / FIGURES_COMPLETE, b"", sync=False)
    return paths


def layer_figures(foci: Foci) -> dict[str, Figure]:
    """Foci, trajectory and, where they can be drawn, focused weights of a layer."""
    path: dict[str, Any] = {
        "tau": foci.tau,
        "mu": foci.mu,
        "sigma": foci.sigma,
        "informative": foci.informative,
    }
    weights = weights_figure(**path, shown=foci.shown, first=foci.first, last=foci.last)
    return {
        "foci": foci_figure(**path, focus=foci.focus, normalizer=foci.normalizer),
        "trajectory": trajectory_figure(**path, epochs=foci.epochs),
    } | ({} if weights is None else {"weights": weights})
