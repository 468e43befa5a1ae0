"""Building blocks of report figures: `Chart`, the runs it draws, and access to their arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from matplotlib.figure import Figure

from focusing.drawing import Array, LayerFoci, figure_style
from focusing.errors import DamagedError, printable
from focusing.reports.foci import FILE as FOCI_FILE
from focusing.reports.foci import first_and_last, read_foci
from focusing.reports.names import PROTOCOLS, SMALL_SIZES, data_order, edition_words, option_words
from focusing.reports.plans import command
from focusing.reports.settings import Edition, Setting, editions
from focusing.reports.tables import file_name
from focusing.results.collect import Collection, Run

MEASUREMENT_EXPERIMENTS = ("sparsity", "redundancy", "timing", "explain")
"""Experiments about a measurement that has its own figure; they have no other figures."""
FOCUSED_MODELS = ("focus_s", "focus_c", "focus_2d", "cnn_focus", "vgg_focus")
"""Models whose foci are drawn by data set."""
PROTOCOL_TITLES = {
    "best_test": "best test epoch",
    "holdout": "test at the best validation epoch",
    "last": "after the last epoch",
}
INTERVAL_NOTE = (
    "means with 95 % intervals (Student's t; bootstrap from 20 runs on; none below 3 runs)"
)
SINGLE_RUN_EXPERIMENTS = ("sparsity",)
"""Experiments whose single runs are meaningful and not only for the appendix."""
PICTURES = (".png", ".svg", ".pdf")
Row = Mapping[str, Any]
Rows = Sequence[Row]


@dataclass(frozen=True)
class Chart:
    """A figure that is not drawn yet.

    Attributes:
        name: of its files.
        title: one line.
        caption: what it shows, of how many runs, with what intervals.
        rows: all numbers in it, for the CSV file; equal rows give equal figures.
        plot: makes the figure, or the content of its file; called only if the rows changed.
        tags: ``data``, ``model``, ``protocol`` and so on, for filters; several values are separated
            by blanks.
        suffixes: of its files, besides ``.csv``.
        section: of the page and of ``all.md``.
    """

    name: str
    title: str
    caption: str
    rows: Rows
    plot: Callable[[], Figure | bytes]
    tags: Mapping[str, str] = field(default_factory=dict)
    suffixes: tuple[str, ...] = PICTURES
    section: str = ""

    @property
    def minor(self) -> bool:
        """Whether it belongs in the appendix."""
        return is_minor(self.rows, self.tags)

    def draw(self) -> Figure | bytes:
        """Draw the figure in the common style."""
        with figure_style():
            return self.plot()


Charts = Iterator[Chart]


class Runs:
    """The runs of a report, with the access that figures need.

    Attributes:
        collection: the runs.
        missing: titles of figures without runs -> the commands that make the runs.
        damaged: files that could not be read -> the reasons.
    """

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.missing: dict[str, str] = {}
        self.damaged: dict[str, str] = {}

    @cached_property
    def editions(self) -> list[Edition]:
        """All editions, without random trials."""
        return editions(self.collection)

    def settings(self) -> Iterator[tuple[Edition, Setting]]:
        """Every setting, with its edition."""
        return ((edition, setting) for edition in self.editions for setting in edition.settings)

    def by_model(self, experiments: Sequence[str]) -> Iterator[tuple[Edition, str, list[Setting]]]:
        """Every focused model with its settings, by edition of these experiments."""
        for edition in self.editions:
            for model in FOCUSED_MODELS if edition.experiment in experiments else ():
                settings = [setting for setting in edition.settings if setting.model == model]
                yield edition, model, sorted(settings, key=lambda s: data_order(s.data))

    def note_missing(self, title: str, experiment: str, *options: str) -> None:
        """Note a figure without runs, and the experiment and options that make them."""
        self.missing[title] = command(experiment, "full", "text", options)

    @contextmanager
    def skip_damaged(self) -> Iterator[None]:
        """Leave the block at a damaged file, and note the file."""
        try:
            yield
        except DamagedError as error:
            location = "/".join(error.path.parts[-4:])
            self.damaged[printable(location)] = printable(error.reason)

    def foci(self, run: Run) -> list[LayerFoci]:
        """The foci of a run; empty if their file is damaged."""
        with self.skip_damaged():
            return read_foci(run.path, run.sizes)
        return []

    def ends(self, run: Run, which: str) -> dict[str, tuple[Array, Array]]:
        """First and last mu or sigma of every layer; empty if their file is damaged."""
        with self.skip_damaged():
            return first_and_last(run.path, which)
        return {}


def chart(
    edition: Edition,
    name: Sequence[str],
    title: str,
    caption: str,
    rows: Rows,
    plot: Callable[[], Figure | bytes],
    *,
    data: Iterable[str] | None = None,
    model: Iterable[str] | None = None,
    home: str = "",
    suffixes: tuple[str, ...] = PICTURES,
    options: Sequence[str] = (),
    **tags: str,
) -> Chart:
    """Make a :class:`Chart` of an edition.

    The file name starts with ``name[0]`` and the edition. It leaves out the experiment if that is
    ``name[0]`` or ``home``. The title ends with the edition and ``options`` in words. The tags
    ``data`` and ``model`` come from the rows unless they are passed.
    """
    subject, *more = name
    parts = [subject, *([] if edition.experiment in (subject, home) else [edition.experiment])]
    words = edition.experiment.replace("_", " "), *edition_words(edition.size, edition.variant)
    return Chart(
        file_name(*parts, edition.size, edition.variant, *more),
        f"{title} ({', '.join([*words, *map(option_words, options)])})",
        caption,
        rows,
        plot,
        edition.columns
        | {"data": join_distinct([row["data"] for row in rows] if data is None else data)}
        | {"model": join_distinct([row["model"] for row in rows] if model is None else model)}
        | tags,
        suffixes,
    )


def setting_name(edition: Edition, setting: Setting) -> tuple[str, ...]:
    """Parts of a file name that tell a setting from others of its edition."""
    several = len({run.data for run in edition.runs}) > 1 or setting.overrides
    return (setting.data, *setting.overrides) if several else ()


def is_minor(rows: Rows, tags: Mapping[str, str]) -> bool:
    """Whether the rows come only from quick runs or single seeds."""
    sizes, experiments = (set(tags.get(name, "").split()) for name in ("size", "experiment"))
    counts = [row["n"] for row in rows if row.get("n") is not None]
    single = bool(counts) and max(counts) == 1 and not experiments & set(SINGLE_RUN_EXPERIMENTS)
    return single or (bool(sizes) and sizes <= set(SMALL_SIZES))


def median_run(runs: Sequence[Run], file: str = FOCI_FILE) -> Run:
    """The run with the median score (the best would flatter), if possible one with this file.

    Of an even number it is the better of the two in the middle.
    """
    order = sorted(runs, key=_goodness)
    with_file = [rank for rank, run in enumerate(order) if (run.path / file).exists()]
    ranks = with_file or range(len(order))
    return order[min(ranks, key=lambda rank: abs(rank - len(order) / 2))]


def describe_run(run: Run, runs: Sequence[Run]) -> str:
    """Name a run by its seed and its rank among the replicates."""
    name = f"seed {run.seed}"
    if len({data_seed(other) for other in (run, *runs)}) > 1:
        name += f", data.seed {data_seed(run)}"
    if len(runs) < 2:
        return name
    protocol = next(name for name in PROTOCOLS if name in run.scores)
    better = sum(_goodness(other) > _goodness(run) for other in runs)
    return f"{name}, by its score number {better + 1} of {len(runs)} runs ({protocol})"


def _goodness(run: Run) -> float:
    score = next(run.scores[name] for name in PROTOCOLS if name in run.scores)
    return -score if run.lower_is_better else score


def data_seed(run: Run) -> Any:
    """Seed of generated data; None for other data."""
    return run.data_options.get("seed")


def protocols_to_show(names: Iterable[str]) -> list[str]:
    """Protocols that get a figure: ``best_test`` and ``holdout``; ``last`` if there is neither."""
    known = set(names)
    return [name for name in ("best_test", "holdout") if name in known] or sorted(known)


def count_range(counts: Iterable[int]) -> str:
    """Smallest and largest count: 5, or 3 to 5."""
    distinct = sorted(set(counts))
    return " to ".join(map(str, dict.fromkeys([distinct[0], distinct[-1]])))


def run_count(counts: Iterable[int]) -> str:
    """Numbers of runs in words: 1 run, 5 runs, 3 to 5 runs."""
    count = count_range(counts)
    return "1 run" if count == "1" else f"{count} runs"


def join_distinct(values: Iterable[Any]) -> str:
    """Join distinct values with blanks, as in a tag."""
    return " ".join(dict.fromkeys(map(str, values)))
