"""Draws ``neuron.svg`` and ``neuron.png``: what a focusing neuron does with its inputs.

Run ``python docs/images/neuron.py``. The coefficients are those of the layer itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from focusing.drawing import COLOURS, GREY, Array, LayerFoci, figure_style, save_figure

INPUTS, MU, SIGMA = 25, 0.42, 0.09
POSITIVE, NEGATIVE = COLOURS[:2]
NEURON = (0.5, 0.95)
"""Where the neuron is, over inputs between 0 and 1."""


def draw_connections(axes: Axes, tau: Array, weights: Array, title: str) -> None:
    """Inputs in a row and the neuron above; lines are as strong as the connections."""
    for x, weight in zip(tau, weights, strict=True):
        axes.plot([x, NEURON[0]], [0.0, NEURON[1]], lw=0.25 + 2.2 * abs(weight), zorder=1,
                  color=POSITIVE if weight > 0 else NEGATIVE,
                  alpha=min(1.0, 0.1 + abs(weight)))  # fmt: skip
    axes.plot(tau, 0 * tau, "o", ms=4, mfc="w", color="k", mew=0.8, zorder=2)
    axes.add_patch(Circle(NEURON, 0.085, fc="w", ec="k", lw=1, zorder=3))
    axes.text(*NEURON, r"$\Sigma$", ha="center", va="center", fontsize=11, zorder=4)
    axes.annotate("", (0.5, 1.25), (0.5, 1.04), arrowprops={"arrowstyle": "->", "lw": 1})
    axes.text(0.54, 1.17, "$y$", va="center", fontsize=10)
    for x, name in ((0, "$x_1$"), (1, f"$x_{{{INPUTS}}}$")):
        axes.text(x, -0.12, name, ha="center", va="center", fontsize=9)
    axes.text(0.5, -0.12, "inputs", ha="center", va="center", color=GREY)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.18, 1.28), aspect="equal")
    axes.set_axis_off()
    axes.set_title(title, fontsize=9, pad=3)


def draw_bars(axes: Axes, tau: Array, values: Array, label: str) -> None:
    """A bar for every input, its name at the left."""
    shades = np.where(values > 0, POSITIVE, NEGATIVE).tolist()
    axes.bar(tau, values, 0.55 / INPUTS, color=shades)
    axes.axhline(0, color="k", lw=0.6)
    _name_row(axes, label)


def draw_focus(axes: Axes, foci: LayerFoci) -> None:
    """The focus over the inputs, with its centre and its aperture."""
    line = np.linspace(0, 1, 400)
    phi, curve = foci.phi(0)[0], foci.smooth_phi(0, line)[0]
    axes.fill_between(line, curve, color="0.88", lw=0)
    axes.plot(line, curve, color="k", lw=1)
    axes.plot(foci.tau[:, 0], phi, "o", color="k", ms=2.5)
    top = curve.max()
    axes.plot([MU, MU], [0, top], ":", color=GREY, lw=0.9)
    axes.text(MU, 1.06 * top, r"centre $\mu$", ha="center", va="bottom", fontsize=8)
    height = float(np.exp(-0.5)) * top  # of a gaussian, one sigma from its centre
    arrow = {"arrowstyle": "<->", "lw": 0.8, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (MU + SIGMA, height), (MU, height), arrowprops=arrow)
    axes.text(MU + SIGMA + 0.02, height, r"aperture $\sigma$", va="center", fontsize=8)
    axes.axhline(0, color="k", lw=0.6)
    axes.set_ylim(0, 1.4 * top)
    _name_row(axes, r"$\phi$")


def _name_row(axes: Axes, name: str) -> None:
    axes.set(xlim=(-0.04, 1.04), xticks=(), yticks=())
    axes.spines[:].set_visible(False)
    axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)


def neuron_figure() -> Figure:
    """A dense neuron, a focusing neuron, and how the second gets its weights."""
    tau = np.linspace(0, 1, INPUTS)
    signs = np.random.default_rng(2).choice([-1, 1], INPUTS)
    weights = signs * np.random.default_rng(3).uniform(0.35, 1, INPUTS)
    mu, sigma = (np.full((1, 1, 1), value) for value in (MU, SIGMA))
    foci = LayerFoci("neuron", np.zeros(1), tau[:, None], mu, sigma, "gaussian", "l2")
    phi = foci.phi(0)[0]
    with figure_style():
        figure = Figure((7.0, 2.75), layout="constrained")
        dense, focusing, how = figure.subfigures(1, 3, width_ratios=(1, 1, 1.15))
        draw_connections(dense.subplots(), tau, weights / 2, r"dense: $y=\sum_i\, w_i\, x_i$")
        draw_connections(focusing.subplots(), tau, phi * weights / phi.max(),
                         r"focusing: $y=\sum_i\, \phi_i\, w_i\, x_i$")  # fmt: skip
        rows = how.subplots(3, 1, height_ratios=(1, 1.5, 1))
        draw_bars(rows[0], tau, weights, "$W$")
        draw_focus(rows[1], foci)
        draw_bars(rows[2], tau, phi * weights, r"$\phi \circ W$")
        rows[0].set_title(r"$\mu$ and $\sigma$ are trained with $W$", fontsize=9, pad=3)
        rows[2].set_xlabel(r"input position $\tau$")
    return figure


if __name__ == "__main__":
    save_figure(neuron_figure(), Path(__file__).parent, "neuron")
