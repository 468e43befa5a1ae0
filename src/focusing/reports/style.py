"""How figures are saved; how they look is in :mod:`focusing.callbacks.style`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from focusing.callbacks.style import house_style
from focusing.results.files import write_whole


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Save a figure as PNG and SVG.

    Args:
        figure: the figure.
        folder: where to; made if missing.
        name: file name without suffix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with house_style():
        FigureCanvasAgg(figure)
        _write(figure, paths[0])
        figure.set_layout_engine("none")  # it is laid out, and once takes a third of the time
        _write(figure, paths[1], metadata={"Date": None})  # equal data, equal file
    return paths


def _write(figure: Figure, path: Path, **options: Any) -> None:
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:], **options)
    write_whole(path, content.getbuffer(), sync=False)
