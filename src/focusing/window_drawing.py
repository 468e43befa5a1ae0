"""Draw the windows of dynamic foci on test samples, as a figure and as an animation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from focusing.drawing import Array, colour, figure_style, render_gif
from focusing.results.arrays import check_arrays, evenly_spaced, read_arrays

FILE = "windows.npz"
KINDS = {"images": "u S ...", "epoch": "if E", "centre": "f E S G d", "extent": "f E S G d"}
MAX_SAMPLES, COLUMNS, MAX_FRAMES, EARLY_FRAMES, FPS = 24, 8, 36, 12, 6
PANEL, TITLE_HEIGHT = 0.85, 0.25
"""Size of a sample and height of the title, in inches."""


def read_windows(run_dir: Path) -> dict[str, Array] | None:
    """Read the windows of a run on images or sequences, which become images.

    None if the run has no dynamic foci, or its windows are in 3-d: they are not drawn.

    Raises:
        DamagedError: the file is damaged.
    """
    path = run_dir / FILE
    if not path.exists():
        return None
    arrays = read_arrays(path)
    check_arrays(path, arrays, KINDS)
    return _as_images(arrays) if in_plane(arrays) else None


def in_plane(arrays: dict[str, Array]) -> bool:
    """Whether the samples are images or sequences, with windows along all of their axes."""
    axes = arrays["centre"].shape[-1]
    return bool(axes <= 2 and arrays["images"].ndim == axes + 2)


def _as_images(arrays: dict[str, Array]) -> dict[str, Array]:
    """Sequences as images: a row for each channel, thick enough to be seen, and high windows."""
    images = arrays["images"]
    if images.ndim == 4:
        return arrays
    _, length, channels = images.shape
    strips = images.transpose(0, 2, 1).repeat(max(2, length // (4 * channels)), axis=1)
    whole = {
        name: np.concatenate([np.full_like(arrays[name], share), arrays[name]], axis=-1)
        for name, share in (("centre", 0.5), ("extent", 1.0))
    }
    return {**arrays, **whole, "images": strips[..., None]}


def windows_figure(arrays: dict[str, Array]) -> Figure:
    """Draw test samples with the windows of the trained network."""
    figure, show = _window_panels(arrays)
    show(-1)
    return figure


def _window_panels(arrays: dict[str, Array]) -> tuple[Figure, Callable[[int], None]]:
    """A grid of samples, and a function that moves their windows to those of a record."""
    arrays = _as_images(arrays)
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
            grey = image.mean(-1).round().astype(image.dtype)
            panel.imshow(grey if image.shape[-1] < 3 else image[..., :3], cmap="gray")
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


def frame_indices(records: int) -> list[int]:
    """Records to animate: the first ones, in which windows move most, and some of the others."""
    early = min(EARLY_FRAMES, records)
    later = evenly_spaced(records - early, MAX_FRAMES - early)
    return [*range(early), *(early + int(at) for at in later)]


def windows_gif(arrays: dict[str, Array]) -> bytes:
    """A GIF of the windows over epochs, which holds its last frame for a second."""
    times = frame_indices(len(arrays["epoch"]))
    return render_gif(*_window_panels(arrays), [*times, *[times[-1]] * FPS], fps=FPS, dpi=110)
