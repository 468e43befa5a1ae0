"""Figures for callbacks and reports: common style, PNG, SVG and GIF files, and plots of foci."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageStat

from focusing.nn.focus import coefficients
from focusing.results.arrays import evenly_spaced
from focusing.results.store import atomic_write

Array = NDArray[Any]

COLUMN_WIDTH = 3.4
"""Width of a figure in inches: one column of a paper."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito: readable in print and by the colour-blind."""
GREY, NOISE_SHADE = "0.45", "0.92"
MAX_CURVES = 10
"""Most neurons to draw as single curves; more become a heat map, or are sampled."""
MAX_MARKS = 40
"""Most neurons to draw in 2-d; more are sampled."""
MAX_FRAMES = 100
"""Most frames of an animation."""
PALETTE_SIZE = 256
"""Colours of a PNG with a palette, which takes a third of the bytes of full colours."""
CURVE_POINTS, MAX_INPUT_TICKS = 400, 100
"""Points of a smooth curve, and most inputs to mark on an axis."""
MAX_OVERSHOOT = 2.0
"""Limit of a smooth curve of phi, relative to its largest value at the inputs."""
VISIBLE_DIFFERENCE = 0.1
"""Mean colour difference (of 255) that is visible: in photos and gradients, not in lines."""

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
    "savefig.dpi": 200,  # for screens; use SVG or PDF for print
    "figure.dpi": 200,
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "focusing",  # reproducible files
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply the style of all figures, and restore the user's matplotlib settings afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def colour(index: int) -> str:
    """Colour of the neuron or series with this index."""
    return COLOURS[index % len(COLOURS)]


def save_figure(
    figure: Figure, folder: Path, name: str, suffixes: Sequence[str] = (".png", ".svg")
) -> list[Path]:
    """Save a figure atomically as PNG, SVG or PDF; the folder is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}{suffix}" for suffix in suffixes]
    with figure_style():
        FigureCanvasAgg(figure)
        for path in paths:
            if path.suffix == ".png":
                content = _png(figure)
                figure.set_layout_engine("none")  # a second layout would take a third of the time
            else:
                vector = io.BytesIO()
                date = {".svg": "Date", ".pdf": "CreationDate"}[path.suffix]  # for equal files
                figure.savefig(vector, format=path.suffix[1:], metadata={date: None})
                content = vector.getbuffer()
            atomic_write(path, content, sync=False)
    return paths


def _png(figure: Figure) -> memoryview:
    """Encode a figure as PNG, with a palette unless the difference would be visible."""
    full_png, best_png = io.BytesIO(), io.BytesIO()
    figure.savefig(full_png, format="png", pil_kwargs={"compress_level": 1})
    with Image.open(full_png) as image:
        full = image.convert("RGB")
        reduced = full.quantize(PALETTE_SIZE, dither=Image.Dither.NONE)
        difference = ImageStat.Stat(ImageChops.difference(full, reduced.convert("RGB"))).mean
        best = full if max(difference) > VISIBLE_DIFFERENCE else reduced
        best.save(best_png, format="png", optimize=True, dpi=image.info["dpi"])
    return best_png.getbuffer()


@dataclass(frozen=True)
class LayerFoci:
    """Recorded foci of a layer with n neurons and m inputs in d dimensions, E records.

    Attributes:
        layer: name of the layer.
        epochs: epochs done at each record, (E,).
        tau: positions of the inputs, (m, d).
        mu: centres, (E, n, d).
        sigma: apertures, (E, n, d).
        focus: name of the focus function.
        normalizer: name of the normaliser.
        shown: neurons whose weights are stored, (k,).
        first: their initial effective weights phi o W, (k, m).
        last: their final effective weights, (k, m).
        informative: range ``(start, stop)`` of the inputs that are not noise, if known.
    """

    layer: str
    epochs: Array
    tau: Array
    mu: Array
    sigma: Array
    focus: str
    normalizer: str
    shown: Array = field(default_factory=lambda: np.empty(0, dtype=int))
    first: Array = field(default_factory=lambda: np.empty((0, 0)))
    last: Array = field(default_factory=lambda: np.empty((0, 0)))
    informative: Sequence[int] | None = None

    @classmethod
    def of(cls, name: str, arrays: Mapping[str, Array], times: int | None = None) -> LayerFoci:
        """Foci of a layer from the arrays of ``focus.npz``: all records, or the first ``times``."""
        epochs, mu, sigma = (arrays[key][:times] for key in ("epoch", "mu", "sigma"))
        focus, normalizer = (str(arrays[key]) for key in ("focus", "normalizer"))
        shown, first, last = (arrays[key] for key in ("shown", "weight_first", "weight_last"))
        tau = arrays["tau"]
        return cls(name, epochs, tau, mu, sigma, focus, normalizer, shown, first, last)

    @property
    def neurons(self) -> int:
        """Number of neurons."""
        return int(self.mu.shape[1])

    @property
    def dimensions(self) -> int:
        """Dimensions of the positions: 1 for a line, 2 for an image."""
        return int(self.tau.shape[1])

    def phi(self, at: int, neurons: Array | slice = slice(None)) -> Array:
        """Focus coefficients (k, m) of some neurons at a record."""
        return self._coefficients(self.tau, at, neurons, self.normalizer)

    def smooth_phi(self, at: int, line: Array, neurons: Array | slice = slice(None)) -> Array:
        """Phi of some neurons at the positions of ``line``, between the inputs: (k, len(line))."""
        m = len(self.tau)
        g = self._coefficients(np.concatenate([self.tau, line[:, None]]), at, neurons, "none")
        largest = np.abs(g[:, :m]).argmax(1, keepdims=True)
        top, most = (np.take_along_axis(v, largest, 1) for v in (self.phi(at, neurons), g))
        scale = np.divide(top, most, out=np.zeros_like(top), where=most != 0)
        # Clip spikes of foci that are much narrower than the distance between inputs.
        limit = MAX_OVERSHOOT * np.abs(top)
        return np.asarray(np.clip(g[:, m:] * scale, -limit, limit))

    def _coefficients(self, tau: Array, at: int, neurons: Array | slice, normalizer: str) -> Array:
        values = (tau, self.mu[at, neurons], self.sigma[at, neurons])
        at_inputs, mu, sigma = (torch.as_tensor(array).double() for array in values)
        phi = coefficients(at_inputs, mu, sigma, self.focus, normalizer, sample=False)
        return np.asarray(phi.numpy())


def shade_noise(
    axes: Axes, informative: Sequence[int] | None, line: Array, label: bool = True
) -> None:
    """Shade the positions on the x axis whose inputs are noise.

    Args:
        axes: axes to draw on.
        informative: range ``(start, stop)`` of the informative columns.
        line: evenly spaced positions of all columns.
        label: write "noise" above.
    """
    if informative is None or len(line) < 2:
        return
    start, stop = edges(informative, line)
    low, high = edges((0, len(line)), line)
    for left, right in ((low, start), (stop, high)):
        if right - left > 1e-9:
            axes.axvspan(left, right, color=NOISE_SHADE, linewidth=0, zorder=0)
            if label:
                axes.text(
                    (left + right) / 2, 1.02, "noise", color=GREY, ha="center",
                    transform=axes.get_xaxis_transform(),
                )  # fmt: skip
    axes.set_xlim(low, high)


def edges(columns: Sequence[int], line: Array) -> tuple[float, float]:
    """Positions of the two edges of a range ``(start, stop)`` of columns."""
    step = float(line[-1]) / (len(line) - 1)
    start, stop = columns
    return (start - 0.5) * step, (stop - 0.5) * step


def foci_figure(foci: LayerFoci) -> Figure:
    """Draw the initial foci of a layer (dotted) and the final ones (solid)."""
    with figure_style():
        if foci.dimensions == 2:
            return _foci_in_plane(foci)
        if foci.dimensions > 2:
            return _foci_by_axis(foci)
        if foci.neurons > MAX_CURVES:
            return _heat_maps(foci)
        figure = Figure((COLUMN_WIDTH, 2.1), layout="constrained")
        axes = figure.subplots()
        shade_noise(axes, foci.informative, foci.tau[:, 0])
        both = ((0, ":"), (-1, "-"))
        top = max(draw_foci(axes, foci, at, range(foci.neurons), line) for at, line in both)
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.08 * top)
        figure.legend(handles=before_after(), loc="outside upper right", ncols=2)
        return figure


def draw_foci(
    axes: Axes, foci: LayerFoci, at: int, neurons: Sequence[int] | Array, line: str = "-"
) -> float:
    """Draw phi of neurons in 1-d as curves, with the inputs as ticks; returns the maximum."""
    tau = np.unique(foci.tau[:, 0])  # channels share a position
    fine = np.linspace(tau[0], tau[-1], CURVE_POINTS) if len(tau) > 1 else tau
    curves = foci.smooth_phi(at, fine, np.asarray(neurons))
    for index, curve in enumerate(curves):
        axes.plot(fine, curve, line, color=colour(index))
    if len(tau) <= MAX_INPUT_TICKS:
        axes.set_xticks(tau, minor=True)
        axes.tick_params(axis="x", which="minor", length=2, width=0.4)
    ticks = " (a tick for each input)" if len(tau) <= MAX_INPUT_TICKS else ""
    axes.set(xlabel=rf"input position $\tau${ticks}", ylabel=r"focus $\phi$")
    return float(curves.max())


def before_after(colour: str = "k") -> list[Line2D]:
    """Legend entries: a dotted line for initial, a solid one for final."""
    lines: dict[str, Any] = {"initial": ":", "final": "-"}
    return [Line2D([], [], linestyle=lines[name], color=colour, label=name) for name in lines]


def _heat_maps(foci: LayerFoci) -> Figure:
    """Draw phi of many neurons in 1-d as two heat maps, initial and final."""
    _, places = np.unique(foci.tau[:, 0], return_index=True)  # channels share a position
    first, last = (foci.phi(at)[:, places] for at in (0, -1))
    order = np.lexsort((foci.mu[-1, :, 0], foci.mu[0, :, 0]))
    figure = Figure((COLUMN_WIDTH, 2.3), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    top = float(np.quantile(np.stack([first, last]), 0.999))
    for axes, phi, title in zip(panels, (first, last), ("initial", "final"), strict=True):
        image = axes.imshow(
            phi[order], aspect="auto", vmin=min(0.0, phi.min()), vmax=top, origin="lower",
            extent=(0, 1, 0, len(phi)), interpolation="nearest", rasterized=True,
        )  # fmt: skip
        axes.set(title=title, xlabel=r"input position $\tau$", xlim=(0, 1))
        for edge in edges(foci.informative, foci.tau[:, 0]) if foci.informative else ():
            axes.axvline(edge, color="w", linestyle="--", linewidth=0.8)
    panels[0].set_ylabel(r"neurons by initial $\mu$")
    figure.colorbar(image, ax=panels, label=r"focus $\phi$", pad=0.02)
    return figure


def _foci_in_plane(foci: LayerFoci) -> Figure:
    """Draw foci in 2-d: a cross at mu and an ellipse of one sigma; the first axis points down."""
    mu, sigma = foci.mu, foci.sigma
    figure = Figure((COLUMN_WIDTH, 1.95), layout="constrained")
    sample = evenly_spaced(foci.neurons, MAX_MARKS)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, at, line, title in zip(
        panels, (0, -1), (":", "-"), ("initial", "final"), strict=True
    ):
        axes.scatter(mu[at, :, 1], mu[at, :, 0], s=1.5, color="0.8", linewidths=0)
        for index, neuron in enumerate(sample):
            mark_focus(axes, mu[at, neuron], sigma[at, neuron], colour(index), line)
        frame_plane(axes)
        axes.set(title=title, xlabel="column")
    panels[0].set_ylabel("row")
    return figure


def mark_focus(axes: Axes, mu: Array, sigma: Array, colour: str, line: str = "-") -> None:
    """Draw a focus in 2-d: a cross at mu and an ellipse of one sigma."""
    axes.plot(mu[1], mu[0], "+", color=colour, markersize=4, markeredgewidth=0.8)
    shape = Ellipse((mu[1], mu[0]), 2 * sigma[1], 2 * sigma[0], fill=False, linestyle=line)
    shape.set(edgecolor=colour, linewidth=0.8)
    axes.add_patch(shape)


def frame_plane(axes: Axes) -> None:
    """Set axes to the unit square with rows pointing down, as in an image."""
    axes.set(xlim=(0, 1), ylim=(1, 0), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axes.spines[:].set_visible(True)


def _foci_by_axis(foci: LayerFoci) -> Figure:
    """Draw sigma against mu, with a panel for each axis of a volume."""
    mu, sigma = foci.mu, foci.sigma
    figure = Figure((COLUMN_WIDTH, 1.9), layout="constrained")
    panels = figure.subplots(1, foci.dimensions, sharey=True, squeeze=False)[0]
    for axis, axes in enumerate(panels):
        axes.plot(mu[0, :, axis], sigma[0, :, axis], "s", color=GREY, ms=3, label="initial")
        axes.plot(mu[-1, :, axis], sigma[-1, :, axis], "^", color=colour(0), ms=3, label="final")
        axes.set(title=f"axis {axis}", xlabel=r"$\mu$", xlim=(-0.05, 1.05))
    panels[0].set_ylabel(r"$\sigma$")
    panels[-1].legend()
    return figure


def foci_gif(foci: LayerFoci, *, fps: int = 10, frames: int = MAX_FRAMES) -> bytes:
    """A GIF of the foci of a layer in 1-d or 2-d, at evenly spaced records."""
    with figure_style():
        on_line, tau = foci.dimensions == 1, foci.tau[:, 0]
        figure = Figure((COLUMN_WIDTH, 2.2 if on_line else COLUMN_WIDTH), layout="constrained")
        axes = figure.subplots()
        sample = evenly_spaced(foci.neurons, MAX_CURVES if on_line else MAX_MARKS)
        times = evenly_spaced(len(foci.mu), frames)
        fine = np.linspace(tau.min(), tau.max(), CURVE_POINTS)
        tops = [foci.smooth_phi(at, fine, sample).max() for at in times] if on_line else [1.0]

        def show(at: int) -> None:
            axes.clear()
            if on_line:
                shade_noise(axes, foci.informative, tau)
                draw_foci(axes, foci, at, sample)
                axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.05 * max(tops))
            else:
                for index, neuron in enumerate(sample):
                    mark_focus(axes, foci.mu[at, neuron], foci.sigma[at, neuron], colour(index))
                frame_plane(axes)
            axes.set_title(f"epoch {foci.epochs[at]}", loc="right", pad=3)

        show(times[-1])
        figure.draw_without_rendering()
        figure.set_layout_engine(
            "none"
        )  # all frames share the layout, which takes most of the time
        return render_gif(figure, show, times, fps=fps, dpi=150)


def render_gif(
    figure: Figure, show: Callable[[int], object], times: Iterable[int], *, fps: int, dpi: int
) -> bytes:
    """A GIF of a figure with a frame for each time; ``show(time)`` updates the figure."""
    figure.set_dpi(dpi)
    canvas: Any = FigureCanvasAgg(figure)
    frames = []
    for at in times:
        show(at)
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    content = io.BytesIO()
    options = {"append_images": frames[1:], "duration": 1000 // fps, "loop": 0}
    frames[0].save(content, "GIF", save_all=True, **options)
    return content.getvalue()
