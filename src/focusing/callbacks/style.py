"""The house style of all figures: readable at column width, in print, by the colour-blind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

COLUMN = 3.4
"""Width of a paper's column in inches; all figures are drawn for it."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's: told apart by colour-blind readers, and in print."""
GREY, SHADE = "0.45", "0.92"
FEW = 10
"""More neurons than this are drawn as a heat map or by a sample: single curves cannot be told."""

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "image.cmap": "cividis",
    "savefig.dpi": 300,
    "figure.dpi": 200,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "focusing",  # equal data, equal file
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw inside this; the reader's own matplotlib settings come back afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        for key, value in STYLE.items():
            mpl.rcParams[key] = value
        yield


def colour(index: int) -> str:
    """The colour of a neuron or a series."""
    return COLOURS[index % len(COLOURS)]


def pick(count: int, most: int) -> Array:
    """Evenly spaced indices, all of them if there are few."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)
