"""Where dynamic foci looked: test samples with their windows, as a figure and as a film."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from focusing.drawing import Array, colour, evenly_spaced, figure_style, film
from focusing.results.arrays import check_arrays, read_arrays

FILE = "windows.npz"
KINDS = {"images": "u S ...", "epoch": "if E", "centre": "f E S G d", "extent": "f E S G d"}
MAX_SAMPLES, COLUMNS, MAX_FRAMES, EARLY_FRAMES = 24, 8, 36, 12
PANEL = 0.85
"""Inches of a sample."""


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


class WindowPanels:
    """Samples in a grid of panels, each with the frames of its windows.

    Args:
        arrays: from :func:`read_windows`.
    """

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        images = arrays["images"]
        shown = evenly_spaced(len(images), MAX_SAMPLES)
        rows = -(-len(shown) // COLUMNS)
        with figure_style():
            self.figure = Figure((COLUMNS * PANEL, rows * PANEL + 0.25))
            panels: Any = self.figure.subplots(rows, COLUMNS, squeeze=False)
            top = 1 - 0.25 / (rows * PANEL + 0.25)
            self.figure.subplots_adjust(0.005, 0.005, 0.995, top, wspace=0.05, hspace=0.05)
            self.title = self.figure.text(0.01, 0.995, "", va="top", fontsize=8)
            self.frames: list[tuple[int, int, Rectangle]] = []
            for panel in panels.flat:
                panel.set_axis_off()
            for panel, sample in zip(panels.flat, shown, strict=False):
                image = images[sample]
                panel.imshow(image[..., 0] if image.shape[-1] == 1 else image[..., :3], cmap="gray")
                for glimpse in range(arrays["centre"].shape[2]):
                    edge = Rectangle((0, 0), 1, 1, fill=False, lw=1.2, ec=colour(glimpse + 1))
                    self.frames.append((sample, glimpse, panel.add_patch(edge)))

    def show(self, at: int) -> None:
        """Put the windows where they were at a recorded time."""
        size = np.array(self.arrays["images"].shape[1:3]) - 1
        for sample, glimpse, frame in self.frames:
            centre = self.arrays["centre"][at, sample, glimpse] * size
            extent = self.arrays["extent"][at, sample, glimpse] * size
            top, left = centre - extent / 2
            frame.set(xy=(left, top), height=extent[0], width=extent[1])
        self.title.set_text(f"epoch {round(float(self.arrays['epoch'][at]), 1):g}")


def windows_figure(arrays: dict[str, Array]) -> Figure:
    """Test samples with the windows that the trained network looks at."""
    panels = WindowPanels(arrays)
    panels.show(-1)
    return panels.figure


def film_times(records: int) -> list[int]:
    """Which records a film shows: the first, in which windows move most, and some of the others."""
    early = min(EARLY_FRAMES, records)
    later = evenly_spaced(records - early, MAX_FRAMES - early)
    return [*range(early), *(early + int(at) for at in later)]


def film_windows(arrays: dict[str, Array], fps: int = 6) -> bytes:
    """The same over epochs, as a GIF that rests on its last picture."""
    panels = WindowPanels(arrays)
    times = film_times(len(arrays["epoch"]))
    return film(panels.figure, panels.show, [*times, *[times[-1]] * fps], fps=fps, dpi=110)
