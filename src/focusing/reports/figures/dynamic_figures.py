"""Figures of foci that follow the input, and of foci on inputs of several domains."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from focusing import drawing
from focusing.drawing import GREY, NOISE_SHADE, Array
from focusing.reports.figures.chart import (
    Charts,
    Edition,
    Row,
    describe_run,
    editions,
    ends_or_note,
    median_run,
    noting_damage,
)
from focusing.reports.figures.plotting import BLUE
from focusing.reports.names import data_name, model_name
from focusing.reports.tables.settings import Setting, settings_of
from focusing.results.collect import Collection
from focusing.window_drawing import FILE, film_windows, read_windows, windows_figure

BINS = 20
"""Of the distribution of centres along an axis."""


def window_charts(collection: Collection) -> Charts:
    """Where the foci of a typical run looked, for every setting with dynamic foci on pictures."""
    charts: Charts = []
    for edition in editions(collection):
        settings = [s for s in settings_of(edition.runs) if "windows" in s.runs[0].measured]
        for number, setting in enumerate(settings):
            charts += _windows(edition, setting, str(number + 1))
    return charts


def _windows(edition: Edition, setting: Setting, number: str) -> Charts:
    charts: Charts = []
    run = median_run(setting.runs, FILE)
    arrays = None
    with noting_damage(charts):
        arrays = read_windows(run.path)
    if arrays is None:
        return charts
    about = ", ".join([data_name(run.data), model_name(run.model), *setting.label()])
    caption = (
        f"{about}, {describe_run(run, setting.runs)}. Test samples and the window that the network "
        f"looks at, "
    )
    rows: list[Row] = [
        {
            **setting.about(),
            "seed": run.seed,
            "epoch": float(epoch),
            "sample": sample,
            "glimpse": glimpse,
            **dict(zip(("row", "column"), map(float, centre), strict=True)),
            **dict(zip(("height", "width"), map(float, extent), strict=True)),
        }
        for epoch, centres, extents in zip(
            *(arrays[name][[0, -1]] for name in ("epoch", "centre", "extent")), strict=True
        )
        for sample in range(len(centres))
        for glimpse, (centre, extent) in enumerate(
            zip(centres[sample], extents[sample], strict=True)
        )
    ]
    for name, title, when, plot, suffixes in (
        ("windows", "Windows", "after training.", partial(windows_figure, arrays), None),
        ("window_film", "Moving windows", "over epochs.", partial(_film, arrays), (".gif",)),
    ):
        more: dict[str, Any] = {"suffixes": suffixes} if suffixes else {}
        charts.append(
            edition.chart(
                (name, run.data, number), title, caption + when, rows, plot,
                data=[run.data], model=[run.model], **more,
            )
        )  # fmt: skip
    return charts


def _film(arrays: dict[str, Array]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "film.gif")
        film_windows(path, arrays)
        return path.read_bytes()


def domain_charts(collection: Collection) -> Charts:
    """Centres of the first layer along inputs of several domains, before and after training."""
    charts: Charts = []
    for edition in editions(collection):
        panels: list[tuple[Setting, tuple[Array, Array]]] = []
        for setting in settings_of(edition.runs):
            if setting.runs[0].sizes.get("domains") and setting.runs[0].focus:
                centres = _centres(setting, charts)
                if centres is not None:
                    panels.append((setting, centres))
        if not panels:
            continue
        rows = [
            {
                **setting.about(),
                "domain": domain,
                "runs": len(setting.runs),
                "foci_first": float(_inside(centres[0], setting, domain).mean()),
                "foci_last": float(_inside(centres[1], setting, domain).mean()),
            }
            for setting, centres in panels
            for domain in setting.runs[0].sizes["domains"]
        ]
        charts.append(
            edition.chart(
                ("domains",),
                "Foci by domain",
                "Centres of the first layer's foci along the inputs, all runs: grey line at the "
                "start, blue after training. Above: share of the foci in each domain, at the start "
                "and after training. Grey ground: a domain of pure noise.",
                rows,
                partial(_draw_domains, panels),
            )
        )
    return charts


def _centres(setting: Setting, charts: Charts) -> tuple[Array, Array] | None:
    """First and last centres of all runs along the first axis; None if all files are gone."""
    ends = [next(iter(ends_or_note(run, "mu", charts).values()), None) for run in setting.runs]
    known = [end for end in ends if end is not None]
    if not known:
        return None
    first, last = (np.concatenate([end[at][:, 0] for end in known]) for at in (0, 1))
    return first, last


def _bounds(setting: Setting, domain: str) -> tuple[float, float]:
    """Where a domain begins and ends, of inputs from 0 to 1."""
    sizes: Mapping[str, Any] = setting.runs[0].sizes
    low, high = sizes["domains"][domain]
    return low / sizes["inputs"], high / sizes["inputs"]


def _inside(centres: Array, setting: Setting, domain: str) -> Array:
    low, high = _bounds(setting, domain)
    inside: Array = (centres >= low) & (centres < (high if high < 1 else np.inf))
    return inside


def _draw_domains(panels: Sequence[tuple[Setting, tuple[Array, Array]]]) -> Figure:
    columns = min(3, len({setting.model for setting, _ in panels}))
    rows = -(-len(panels) // columns)
    figure = Figure((2 * drawing.COLUMN_WIDTH, 0.35 + 1.25 * rows), layout="constrained")
    grid: Any = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, (setting, (first, last)) in zip(grid.flat, panels, strict=False):
        options = {"bins": BINS, "range": (0, 1), "weights": np.full(len(first), 100 / len(first))}
        axes.hist(last, color=BLUE, alpha=0.7, **options)
        axes.hist(first, histtype="step", color=GREY, linewidth=1, **options)
        noise = setting.runs[0].data_options.get("noise")
        for domain in setting.runs[0].sizes["domains"]:
            low, high = _bounds(setting, domain)
            if domain == noise:
                axes.axvspan(low, high, color=NOISE_SHADE, linewidth=0, zorder=0)
            shares = (100 * _inside(end, setting, domain).mean() for end in (first, last))
            words = f"{'noise' if domain == noise else domain}: " + " → ".join(
                f"{share:.0f}" for share in shares
            )
            axes.text(
                (low + high) / 2, 0.97, f"{words} %", ha="center", va="top", fontsize=7,
                transform=axes.get_xaxis_transform(),
            )  # fmt: skip
            if low > 0:
                axes.axvline(low, color="0.4", linewidth=0.7, linestyle=":")
        axes.set_title(", ".join([model_name(setting.model), *setting.label()]), fontsize=8)
        axes.set_xlim(0, 1)
        axes.margins(y=0.3)
    for axes in grid[:, 0]:
        axes.set_ylabel("% of foci")
    for axes in grid[-1]:
        axes.set_xlabel(r"centre $\mu$")
    return figure
