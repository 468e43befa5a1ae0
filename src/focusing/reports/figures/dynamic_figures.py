"""Figures of foci that follow the input, and of foci on inputs of several domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from focusing.drawing import GREY, NOISE_SHADE, Array
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import Charts, Row, Runs, chart, describe_run, median_run
from focusing.reports.names import PROTOCOLS, data_name, model_name, option_words
from focusing.reports.plans import is_unchanged
from focusing.reports.settings import Edition, Setting
from focusing.window_drawing import FILE, read_windows, windows_figure, windows_gif

BINS = 20
"""Bins of the histogram of centres along an axis."""


def window_charts(runs: Runs) -> Charts:
    """Windows of a median run, for every network with its experiment's own options.

    The one that gains most over its dense twin, if any does, also gets a film.
    """
    shown = [
        (edition, setting)
        for edition, setting in runs.settings()
        if "windows" in setting.runs[0].measured and is_unchanged(setting)
    ]
    gains = [_gain(edition, setting) for edition, setting in shown]
    filmed = shown[gains.index(max(gains))][1] if max(gains, default=0.0) > 0 else None
    for edition in runs.editions:
        settings = [setting for its_edition, setting in shown if its_edition is edition]
        for number, setting in enumerate(settings, start=1):
            run, arrays = median_run(setting.runs, FILE), None
            with runs.skip_damaged():
                arrays = read_windows(run.path)
            if arrays is None:
                continue
            about = ", ".join([data_name(run.data), model_name(run.model), *setting.label()])
            caption = (
                f"{about}, {describe_run(run, setting.runs)}. Test samples and the window that the "
                "network looks at, "
            )
            rows = [{**setting.columns(), "seed": run.seed, **row} for row in _window_rows(arrays)]
            place = run.data, str(number)
            tags: dict[str, Any] = {"data": [run.data], "model": [run.model]}
            yield chart(
                edition, ("windows", *place), "Windows", f"{caption}after training.", rows,
                partial(windows_figure, arrays), **tags,
            )  # fmt: skip
            if setting is filmed:
                yield chart(
                    edition, ("window_film", *place), "Moving windows", f"{caption}over epochs.",
                    rows, partial(windows_gif, arrays), **tags, suffixes=(".gif",),
                )  # fmt: skip


def _gain(edition: Edition, setting: Setting) -> float:
    tests = [edition.tests.get((setting, protocol)) for protocol in PROTOCOLS]
    return max((test.difference for test in tests if test), default=0.0)


def _window_rows(arrays: Mapping[str, Array]) -> list[Row]:
    """Windows of every sample and glimpse before and after training."""
    centre, extent = arrays["centre"], arrays["extent"]
    return [
        {
            "epoch": float(arrays["epoch"][at]),
            "sample": sample,
            "glimpse": glimpse,
            **dict(zip(("row", "column"), centre[at, sample, glimpse].tolist(), strict=True)),
            **dict(zip(("height", "width"), extent[at, sample, glimpse].tolist(), strict=True)),
        }
        for at in (0, -1)
        for sample in range(centre.shape[1])
        for glimpse in range(centre.shape[2])
    ]


def domain_charts(runs: Runs) -> Charts:
    """Centres of the first layer along inputs of several domains, before and after training."""
    caption = (
        "Centres of the first layer's foci along the inputs, all runs: grey line at the "
        "start, blue after training. Above: share of the foci in each domain, at the start "
        "and after training. Grey ground: a domain of pure noise."
    )
    for edition in runs.editions:
        panels = [
            (setting, centres)
            for setting in edition.settings
            if setting.runs[0].sizes.get("domains")
            and any(name.startswith("in_") for name in _first_layer(setting))
            and (centres := _centres(setting, runs)) is not None
        ]
        rows = [
            {
                **setting.columns(),
                "domain": domain,
                "runs": len(setting.runs),
                "foci_first": float(_inside(centres[0], setting, domain).mean()),
                "foci_last": float(_inside(centres[1], setting, domain).mean()),
            }
            for setting, centres in panels
            for domain in setting.runs[0].sizes["domains"]
        ]
        if rows:
            plot = partial(_draw_domains, panels)
            yield chart(edition, ("domains",), "Foci by domain", caption, rows, plot)


def _first_layer(setting: Setting) -> Mapping[str, Any]:
    """What the record says of the first focused layer: shares by domain if it sees the inputs."""
    return next(iter(setting.runs[0].focus.values()), {})


def _centres(setting: Setting, runs: Runs) -> tuple[Array, Array] | None:
    """First and last centres of all runs along the first axis; None if no file can be read."""
    ends = [next(iter(runs.ends(run, "mu").values()), None) for run in setting.runs]
    known = [end for end in ends if end is not None]
    if not known:
        return None
    first, last = (np.concatenate([end[at][:, 0] for end in known]) for at in (0, 1))
    return first, last


def _bounds(setting: Setting, domain: str) -> tuple[float, float]:
    """Start and end of a domain, with the inputs from 0 to 1."""
    sizes: Mapping[str, Any] = setting.runs[0].sizes
    low, high = sizes["domains"][domain]
    return low / sizes["inputs"], high / sizes["inputs"]


def _inside(centres: Array, setting: Setting, domain: str) -> Array:
    low, high = _bounds(setting, domain)
    inside: Array = (centres >= low) & (centres < (high if high < 1 else np.inf))
    return inside


def _draw_domains(shown: Sequence[tuple[Setting, tuple[Array, Array]]]) -> Figure:
    panels = plotting.small_multiples(len(shown), 1.5, max_columns=3, sharex=True, sharey=True)
    for axes, (setting, (first, last)) in zip(panels.axes, shown, strict=True):
        options: dict[str, Any] = {"bins": BINS, "range": (0, 1)}
        options["weights"] = np.full(len(first), 100 / len(first))
        axes.hist(last, color=plotting.BLUE, alpha=0.7, **options)
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
        title = ", ".join([model_name(setting.model), *map(option_words, setting.label())])
        plotting.panel_title(axes, title)
        axes.set_xlim(0, 1)
        axes.margins(y=0.3)
    panels.label(r"centre $\mu$", "% of foci")
    return panels.figure
