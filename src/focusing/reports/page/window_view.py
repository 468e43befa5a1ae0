"""Where dynamic foci looked, for the page of a run: samples in one picture, and their windows."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from focusing.errors import DamagedError
from focusing.window_drawing import film_times, read_windows


def windows_of(run_dir: Path) -> dict[str, Any] | None:
    """Samples, side by side in one PNG, and their windows over epochs.

    Returns:
        ``picture`` (a data address), ``size`` (height and width of a sample), ``epochs`` and
        ``boxes``: top, left, height and width of a window, in samples, by epoch, sample and
        glimpse. None without a file that can be read.
    """
    try:
        arrays = read_windows(run_dir)
    except (OSError, DamagedError):
        return None
    if arrays is None:
        return None
    images, times = arrays["images"], film_times(len(arrays["epoch"]))
    row = np.concatenate(images, axis=1)
    content = io.BytesIO()
    Image.fromarray(row[..., 0] if row.shape[-1] != 3 else row).save(content, "PNG", optimize=True)
    centre, extent = (arrays[name][times] for name in ("centre", "extent"))
    boxes = np.concatenate([centre - extent / 2, extent], axis=-1).round(3)
    return {
        "picture": f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}",
        "size": list(images.shape[1:3]),
        "epochs": [round(float(epoch), 2) for epoch in arrays["epoch"][times]],
        "boxes": boxes.astype(float).round(3).tolist(),
    }
