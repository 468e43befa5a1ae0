"""The figure of a layer's foci, for loggers and for reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from focusing.callbacks.style import COLUMN, FEW, GREY, SHADE, Array, colour, house_style, pick
from focusing.nn.focus import coefficients


def phi_of(tau: Array, mu: Array, sigma: Array, focus: str, normalizer: str) -> Array:
    """Focus coefficients (n, m) of recorded foci."""
    at, centre, aperture = (torch.as_tensor(each).double() for each in (tau, mu, sigma))
    phi: Array = coefficients(at, centre, aperture, focus, normalizer, sample=False).numpy()
    return phi


def shade_noise(
    axes: Axes, informative: Sequence[int] | None, line: Array, label: bool = True
) -> None:
    """Grey where the inputs are noise.

    Args:
        axes: with the input positions on the x axis.
        informative: first informative column, and the one after the last.
        line: positions of all columns, at equal distances.
        label: say "noise" above.
    """
    if informative is None or len(line) < 2:
        return
    start, stop = edges(informative, line)
    low, high = edges((0, len(line)), line)
    for left, right in ((low, start), (stop, high)):
        if right - left > 1e-9:
            axes.axvspan(left, right, color=SHADE, linewidth=0, zorder=0)
            if label:
                where = axes.get_xaxis_transform()
                axes.text(
                    (left + right) / 2, 1.02, "noise", color=GREY, ha="center", transform=where
                )
    axes.set_xlim(low, high)


def edges(columns: Sequence[int], line: Array) -> tuple[float, float]:
    """Positions on the line half a column before the first and after the last of some columns."""
    step = float(line[-1]) / (len(line) - 1)
    start, stop = columns
    return (start - 0.5) * step, (stop - 0.5) * step


def foci_figure(
    tau: Array,
    mu: Array,
    sigma: Array,
    focus: str,
    normalizer: str,
    informative: Sequence[int] | None = None,
) -> Figure:
    """The first foci of a trajectory (dotted) and the last (solid).

    Args:
        tau: positions (m, d).
        mu: centres over epochs, (E, n, d).
        sigma: apertures over epochs, (E, n, d).
        focus: name of the focus function.
        normalizer: name of the normaliser.
        informative: see :func:`shade_noise`.
    """
    axes_count, neurons = tau.shape[1], mu.shape[1]
    with house_style():
        if axes_count == 2:
            return _plane(mu, sigma)
        if axes_count > 2:
            return _each_axis(mu, sigma)
        _, order = np.unique(tau[:, 0], return_index=True)  # channels share a position
        first, last = (
            phi_of(tau, mu[at], sigma[at], focus, normalizer)[:, order] for at in (0, -1)
        )
        x = tau[order, 0]
        if neurons > FEW:
            figure = _heat_maps(first, last, np.lexsort((mu[-1, :, 0], mu[0, :, 0])))
            if informative:
                for axes in figure.axes[:2]:
                    for edge in edges(informative, tau[:, 0]):
                        axes.axvline(edge, color="w", linestyle="--", linewidth=0.8)
                    axes.set_xlim(0, 1)
            return figure
        figure = Figure((COLUMN, 2.1), layout="constrained")
        axes = figure.subplots()
        shade_noise(axes, informative, tau[:, 0])
        for neuron in range(neurons):
            axes.plot(x, first[neuron], ":", color=colour(neuron))
            axes.plot(x, last[neuron], "-", color=colour(neuron))
        axes.set(xlabel=r"input position $\tau$", ylabel=r"focus $\phi$")
        axes.set_ylim(min(0.0, first.min(), last.min()), 1.08 * max(first.max(), last.max()))
        figure.legend(handles=before_after(), loc="outside upper right", ncols=2)
        return figure


def before_after(colour: str = "k") -> list[Line2D]:
    """Legend entries of the two line styles."""
    return [
        Line2D([], [], linestyle=":", color=colour, label="initial"),
        Line2D([], [], linestyle="-", color=colour, label="final"),
    ]


def _heat_maps(first: Array, last: Array, order: Array) -> Figure:
    figure = Figure((COLUMN, 2.3), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    top = float(np.quantile(np.stack([first, last]), 0.999))
    for axes, phi, title in zip(panels, (first, last), ("initial", "final"), strict=True):
        image = axes.imshow(
            phi[order], aspect="auto", vmin=min(0.0, phi.min()), vmax=top, origin="lower",
            extent=(0, 1, 0, len(phi)), interpolation="nearest", rasterized=True,
        )  # fmt: skip
        axes.set(title=title, xlabel=r"input position $\tau$")
    panels[0].set_ylabel(r"neurons by initial $\mu$")
    figure.colorbar(image, ax=panels, label=r"focus $\phi$", pad=0.02)
    return figure


def _plane(mu: Array, sigma: Array) -> Figure:
    """Foci on an image: a cross at mu, an ellipse of one sigma; the first axis goes down."""
    figure = Figure((COLUMN, 1.95), layout="constrained")
    sample = pick(mu.shape[1], 40)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, at, line, title in zip(
        panels, (0, -1), (":", "-"), ("initial", "final"), strict=True
    ):
        axes.scatter(mu[at, :, 1], mu[at, :, 0], s=1.5, color="0.8", linewidths=0)
        for index, neuron in enumerate(sample):
            mark(axes, mu[at, neuron], sigma[at, neuron], colour(index), line)
        frame_plane(axes)
        axes.set(title=title, xlabel="column")
    panels[0].set_ylabel("row")
    return figure


def mark(axes: Axes, mu: Array, sigma: Array, colour: str, line: str = "-") -> None:
    """A cross at a centre in the plane and the ellipse of its aperture."""
    axes.plot(mu[1], mu[0], "+", color=colour, markersize=4, markeredgewidth=0.8)
    shape = Ellipse((mu[1], mu[0]), 2 * sigma[1], 2 * sigma[0], fill=False, linestyle=line)
    shape.set(edgecolor=colour, linewidth=0.8)
    axes.add_patch(shape)


def frame_plane(axes: Axes) -> None:
    """Axes of an image: the unit square, rows going down."""
    axes.set(xlim=(0, 1), ylim=(1, 0), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axes.spines[:].set_visible(True)


def _each_axis(mu: Array, sigma: Array) -> Figure:
    count = mu.shape[2]
    figure = Figure((COLUMN, 1.9), layout="constrained")
    panels = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for axis, axes in enumerate(panels):
        axes.plot(mu[0, :, axis], sigma[0, :, axis], "s", color=GREY, ms=3, label="initial")
        axes.plot(mu[-1, :, axis], sigma[-1, :, axis], "^", color=colour(0), ms=3, label="final")
        axes.set(title=f"axis {axis}", xlabel=r"$\mu$", xlim=(-0.05, 1.05))
    panels[0].set_ylabel(r"$\sigma$")
    panels[-1].legend()
    return figure
