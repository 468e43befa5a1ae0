"""How figures are saved; how they look is in :mod:`focusing.drawing`."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageChops, ImageStat

from focusing.drawing import figure_style
from focusing.results.store import atomic_write

COLOURS = 256
"""Of the palette of a PNG: a third of the bytes of full colours."""
VISIBLE = 0.1
"""Mean difference of colours, of 255, that is seen: in photographs and shades, not in lines."""


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Save a figure as PNG and SVG.

    Args:
        figure: the figure.
        folder: where to; made if missing.
        name: file name without suffix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with figure_style():
        FigureCanvasAgg(figure)
        atomic_write(paths[0], _png(figure), sync=False)
        figure.set_layout_engine("none")  # it is laid out, and once takes a third of the time
        vector = io.BytesIO()
        figure.savefig(vector, format="svg", metadata={"Date": None})  # equal data, equal file
        atomic_write(paths[1], vector.getbuffer(), sync=False)
    return paths


def _png(figure: Figure) -> memoryview:
    """The figure with few colours, unless that can be seen."""
    drawn, content = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", pil_kwargs={"compress_level": 1})
    with Image.open(drawn) as image:
        full = image.convert("RGB")
        few = full.quantize(COLOURS, dither=Image.Dither.NONE)
        change = ImageStat.Stat(ImageChops.difference(full, few.convert("RGB"))).mean
        best = full if max(change) > VISIBLE else few
        best.save(content, format="png", optimize=True, dpi=image.info["dpi"])
    return content.getbuffer()
