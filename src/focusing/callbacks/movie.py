"""A film of the foci moving through training."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter, writers
from matplotlib.figure import Figure

from focusing.callbacks.drawing import frame_plane, mark, phi_of, shade_noise
from focusing.callbacks.style import COLUMN, FEW, Array, colour, house_style, pick
from focusing.nn import FocusedLinear
from focusing.training.trajectory import Trajectory

log = logging.getLogger(__name__)

FRAMES = 100
"""A film of more pictures shows no more, and a GIF keeps each of them."""


def film(
    trajectory: Trajectory, layers: Mapping[str, FocusedLinear], folder: Path, kind: str, fps: int
) -> list[Path]:
    """Film the foci of each layer into ``foci_<layer>.gif`` or ``.mp4``.

    Args:
        trajectory: what to film; at most 100 records of it, evenly spaced.
        layers: the layers of the trajectory.
        folder: where the films go.
        kind: ``"gif"`` or ``"mp4"``; without ffmpeg on the machine a GIF is made.
        fps: pictures per second.
    """
    if kind == "mp4" and not writers.is_available("ffmpeg"):
        log.warning("ffmpeg is not installed: the film of the foci is a GIF, not an MP4.")
        kind = "gif"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, layer in layers.items():
        if layer.mu.shape[1] > 2:  # no picture of foci in a volume
            continue
        mu, sigma = (each.numpy() for each in trajectory.foci(name))
        tau = layer.tau.detach().cpu().numpy()
        path = folder / f"foci_{name}.{kind}"
        film_layer(path, trajectory.epochs, tau, mu, sigma, layer.focus, layer.normalizer, fps=fps)
        paths.append(path)
    return paths


def film_layer(
    path: Path,
    epochs: Sequence[int],
    tau: Array,
    mu: Array,
    sigma: Array,
    focus: str,
    normalizer: str,
    *,
    informative: Sequence[int] | None = None,
    fps: int = 10,
    frames: int = FRAMES,
) -> None:
    """Film the foci of a layer on a line or in the plane.

    Args:
        path: the film, ``.gif`` or ``.mp4``.
        epochs: epochs done at each record (E,).
        tau: positions (m, d).
        mu: centres (E, n, d).
        sigma: apertures (E, n, d).
        focus: name of the focus function.
        normalizer: name of the normaliser.
        informative: see :func:`focusing.callbacks.drawing.shade_noise`.
        fps: pictures per second.
        frames: pictures at most, evenly spaced.
    """
    writer: Any = PillowWriter if path.suffix == ".gif" else FFMpegWriter
    with house_style():
        flat = tau.shape[1] == 1
        figure = Figure((COLUMN, 2.2 if flat else COLUMN), layout="constrained")
        axes = figure.subplots()
        sample = pick(mu.shape[1], FEW if flat else 40)
        order = tau[:, 0].argsort()

        def curves(at: int) -> Array:
            return phi_of(tau, mu[at, sample], sigma[at, sample], focus, normalizer)[:, order]

        shown = pick(len(mu), frames)
        top = max(curves(at).max() for at in shown) * 1.05 if flat else 1.0

        def draw(at: int) -> list[Any]:
            axes.clear()
            if flat:
                shade_noise(axes, informative, tau[:, 0])
                for index, values in enumerate(curves(at)):
                    axes.plot(tau[order, 0], values, color=colour(index))
                axes.set(xlabel=r"input position $\tau$", ylabel=r"focus $\phi$", ylim=(None, top))
            else:
                for index, neuron in enumerate(sample):
                    mark(axes, mu[at, neuron], sigma[at, neuron], colour(index))
                frame_plane(axes)
            corner: dict[str, Any] = {"ha": "right", "va": "top", "transform": axes.transAxes}
            axes.text(0.99, 0.99, f"epoch {epochs[at]}", **corner)
            return []

        draw(shown[-1])
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # it is the same for all pictures, and takes most time
        film = FuncAnimation(figure, draw, frames=shown, init_func=lambda: [])
        part = path.with_name(f".part-{path.name}")  # its suffix tells the kind
        try:
            film.save(part, writer=writer(fps=fps), dpi=150)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
