"""Where dynamic foci looked: test samples with their windows, as a figure and as a film."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from focusing.drawing import Array, colour, figure_style, film
from focusing.results.arrays import check_arrays, evenly_spaced, read_arrays

FILE = "windows.npz"
KINDS = {"images": "u S ...", "epoch": "if E", "centre": "f E S G d", "extent": "f E S G d"}
MAX_SAMPLES, COLUMNS, MAX_FRAMES, EARLY_FRAMES = 24, 8, 36, 12
PANEL, TITLE_HEIGHT = 0.85, 0.25
"""Inches of a sample, and of the line above all."""
FPS = 6


def read_windows(run_dir: Path) -> dict[str, Array] | None:
    """The windows of a run on images; None if it has no dynamic foci, or none in a plane.

    Raises:
        DamagedError: the file is damaged.
    """
    path = run_dir / FILE
    if not path.exists():
        return None
    arrays = read_arrays(path)
    check_arrays(path, arrays, KINDS)
    return arrays if in_plane(arrays) else None


def in_plane(arrays: dict[str, Array]) -> bool:
    """Whether samples are pictures, and windows parts of them."""
    return bool(arrays["images"].ndim == 4 and arrays["centre"].shape[-1] == 2)


def windows_figure(arrays: dict[str, Array]) -> Figure:
    """Test samples with the windows that the trained network looks at."""
    figure, show = _window_panels(arrays)
    show(-1)
    return figure


def _window_panels(arrays: dict[str, Array]) -> tuple[Figure, Callable[[int], None]]:
    """Samples in a grid, and what puts the frames of their windows where they were at a time."""
    images, centres, extents = (arrays[name] for name in ("images", "centre", "extent"))
    shown = evenly_spaced(len(images), MAX_SAMPLES)
    rows = -(-len(shown) // COLUMNS)
    height = rows * PANEL + TITLE_HEIGHT
    frames: list[tuple[int, int, Rectangle]] = []
    with figure_style():
        figure = Figure((COLUMNS * PANEL, height))
        panels: Any = figure.subplots(rows, COLUMNS, squeeze=False)
        top = 1 - TITLE_HEIGHT / height
        figure.subplots_adjust(0.005, 0.005, 0.995, top, wspace=0.05, hspace=0.05)
        title = figure.text(0.01, 0.995, "", va="top", fontsize=8)
        for panel in panels.flat:
            panel.set_axis_off()
        for panel, sample in zip(panels.flat, shown, strict=False):
            image = images[sample]
            panel.imshow(image[..., 0] if image.shape[-1] == 1 else image[..., :3], cmap="gray")
            for glimpse in range(centres.shape[2]):
                edge = Rectangle((0, 0), 1, 1, fill=False, lw=1.2, ec=colour(glimpse + 1))
                frames.append((sample, glimpse, panel.add_patch(edge)))

    def show(at: int) -> None:
        size = np.array(images.shape[1:3]) - 1
        for sample, glimpse, frame in frames:
            extent = extents[at, sample, glimpse] * size
            upper, left = centres[at, sample, glimpse] * size - extent / 2
            frame.set(xy=(left, upper), height=extent[0], width=extent[1])
        title.set_text(f"epoch {round(float(arrays['epoch'][at]), 1):g}")

    return figure, show


def film_times(records: int) -> list[int]:
    """Which records a film shows: the first, in which windows move most, and some of the others."""
    early = min(EARLY_FRAMES, records)
    later = evenly_spaced(records - early, MAX_FRAMES - early)
    return [*range(early), *(early + int(at) for at in later)]


def film_windows(arrays: dict[str, Array]) -> bytes:
    """The same over epochs, as a GIF that rests on its last picture."""
    times = film_times(len(arrays["epoch"]))
    return film(*_window_panels(arrays), [*times, *[times[-1]] * FPS], fps=FPS, dpi=110)
