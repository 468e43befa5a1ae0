"""What a figure of a report is, and which runs it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from matplotlib.figure import Figure

from focusing.drawing import Array, LayerFoci, figure_style
from focusing.errors import DamagedError, printable
from focusing.reports.foci import FILE as FOCI_FILE
from focusing.reports.foci import first_and_last, read_foci
from focusing.reports.names import (
    PROTOCOLS,
    SMALL_SIZES,
    data_order,
    edition_words,
    option_words,
)
from focusing.reports.tables import file_name
from focusing.reports.tables.run_blocks import Block, blocks, command
from focusing.reports.tables.run_blocks import editions as run_editions
from focusing.reports.tables.settings import Setting
from focusing.results.collect import Collection, Run

MEASUREMENTS = ("sparsity", "redundancy", "timing", "explain")
"""Experiments about a measurement, which has a figure of its own: they need no others."""
FOCUSED_MODELS = ("focus_s", "focus_c", "focus_2d", "cnn_focus", "vgg_focus")
"""Models whose foci are drawn by data set."""
PROTOCOL_TITLES = {
    "best_test": "best test epoch",
    "holdout": "test at the best validation epoch",
    "last": "after the last epoch",
}
INTERVALS = "means with 95 % intervals (Student's t; bootstrap from 20 runs on; none below 3 runs)"
ALONE = ("sparsity",)
"""Experiments whose curves mean something without repeats."""
Row = Mapping[str, Any]
Rows = Sequence[Row]


@dataclass(frozen=True)
class Chart:
    """A figure before it is drawn.

    Attributes:
        name: of its files.
        title: one line.
        caption: what it shows, of how many runs, with what intervals.
        rows: all that is drawn, for the CSV file; equal rows give equal figures.
        plot: makes the figure, or the content of its file; called only if the rows are new.
        tags: ``data``, ``model``, ``protocol``, ...: what it is about, for filters. Several values
            are separated by blanks.
        suffixes: of its files besides ``.csv``.
        section: of the page and of ``all.md``.
    """

    name: str
    title: str
    caption: str
    rows: Rows
    plot: Callable[[], Figure | bytes]
    tags: Mapping[str, str] = field(default_factory=dict)
    suffixes: tuple[str, ...] = (".png", ".svg", ".pdf")
    section: str = ""

    @property
    def minor(self) -> bool:
        """It belongs into an appendix: of quick runs, or of single ones where others have more."""
        counts = [row["n"] for row in self.rows if row.get("n") is not None]
        single = bool(counts) and max(counts) == 1 and self.tags.get("experiment") not in ALONE
        return self.tags.get("size") in SMALL_SIZES or single

    def draw(self) -> Figure | bytes:
        """Draw the figure in the style of all figures."""
        with figure_style():
            return self.plot()


@dataclass(frozen=True)
class Missing:
    """A figure that lacks its runs, and the command that makes them."""

    title: str
    command: str


@dataclass(frozen=True)
class Damaged:
    """A damaged file, whose content is left out of a figure, and what is wrong with it."""

    file: str
    reason: str

    @classmethod
    def of(cls, error: DamagedError) -> Damaged:
        """Report what a reader of the file complained about."""
        location = "/".join(error.path.parts[-4:])
        return cls(printable(location), printable(error.reason))


Charts = list[Chart | Missing | Damaged]


def missing(title: str, experiment: str, *options: str) -> Missing:
    """The figure of an experiment that was not run."""
    return Missing(title, command(experiment, "full", "text", options))


def or_missing(charts: Charts, title: str, experiment: str, *options: str) -> Charts:
    """The charts; if there is none, the command that makes the runs for one, too."""
    if any(isinstance(chart, Chart) for chart in charts):
        return charts
    return [*charts, missing(title, experiment, *options)]


def chart_each(items: Iterable[tuple[Any, ...]], make: Callable[..., Chart | None]) -> Charts:
    """The charts that ``make`` makes of items; what a damaged file would show is noted instead."""
    charts: Charts = []
    for item in items:
        with noting_damage(charts):
            if (chart := make(*item)) is not None:
                charts.append(chart)
    return charts


@dataclass(frozen=True)
class Edition:
    """Runs of an experiment, of one size and variant: only these may enter the same mean."""

    experiment: str
    size: str
    variant: str
    runs: tuple[Run, ...] = ()

    def title(self, *options: str) -> str:
        """For print, in brackets behind what a figure shows."""
        words = edition_words(self.size, self.variant)
        named = self.experiment.replace("_", " "), *words, *map(option_words, options)
        return f"({', '.join(named)})"

    def name(self, subject: str, *more: str, home: str = "") -> str:
        """Name of files; that of the experiment ``home`` goes without saying."""
        parts = (subject,) if self.experiment in (subject, home) else (subject, self.experiment)
        return file_name(*parts, self.size, self.variant, *more)

    def block_name(self, block: Block) -> tuple[str, ...]:
        """What tells a block from others of the edition, in names of files."""
        several = len({run.data for run in self.runs}) > 1 or block.options
        return (block.data, *block.options) if several else ()

    def tags(self, **more: str) -> dict[str, str]:
        """Tags for filters."""
        return {"experiment": self.experiment, "size": self.size, "variant": self.variant, **more}

    def chart(
        self,
        name: Sequence[str],
        title: str,
        caption: str,
        rows: Rows,
        plot: Callable[[], Figure | bytes],
        *,
        data: Iterable[str] | None = None,
        model: Iterable[str] | None = None,
        home: str = "",
        suffixes: tuple[str, ...] = (".png", ".svg", ".pdf"),
        **tags: str,
    ) -> Chart:
        """A figure about runs of this edition: a :class:`Chart`.

        Its file name begins with ``name``, and its title ends with the edition. The tags ``data``
        and ``model`` come from the rows unless they are passed; for ``home`` see :meth:`name`.
        """
        data = [row["data"] for row in rows] if data is None else data
        model = [row["model"] for row in rows] if model is None else model
        tags = self.tags(data=joined(data), model=joined(model), **tags)
        full_name, full_title = self.name(*name, home=home), f"{title} {self.title()}"
        return Chart(full_name, full_title, caption, rows, plot, tags, suffixes)


@lru_cache(maxsize=2)  # all families of figures ask
def editions(collection: Collection, random_trials: bool = False) -> tuple[Edition, ...]:
    """All experiments but random trials, or only these, as published first."""
    runs = [run for run in collection.runs if (run.trial is not None) == random_trials]
    return tuple(Edition(**about, runs=tuple(members)) for about, members in run_editions(runs))


def edition_blocks(collection: Collection) -> Iterator[tuple[Edition, Block]]:
    """Runs of every edition that may be compared with each other."""
    for edition in editions(collection):
        for block in blocks(edition.runs):
            yield edition, block


def edition_models(collection: Collection) -> Iterator[tuple[Edition, Block, str]]:
    """Every block of runs with every model in it."""
    for edition, block in edition_blocks(collection):
        for model in block.models:
            yield edition, block, model


def blocks_by_model(
    collection: Collection, experiments: Sequence[str]
) -> Iterator[tuple[Edition, str, list[Block]]]:
    """Editions of some experiments with every focused model, and the blocks with runs of it."""
    for runs in editions(collection):
        if runs.experiment not in experiments:
            continue
        ordered = sorted(blocks(runs.runs), key=lambda block: data_order(block.data))
        for model in FOCUSED_MODELS:
            yield runs, model, [block for block in ordered if model in block.models]


def block_columns(block: Block) -> dict[str, str]:
    """What a block is about, in columns of a CSV file."""
    return {"data": block.data, "source": block.source, "options": " ".join(block.options)}


def never_run(collection: Collection, expected: Mapping[str, str]) -> list[Missing]:
    """The figures of experiments without a run; ``expected``: experiment -> title."""
    ran = {runs.experiment for runs in editions(collection)}
    return [missing(title, name) for name, title in expected.items() if name not in ran]


def median_run(runs: Sequence[Run], file: str = FOCI_FILE) -> Run:
    """The run in the middle by its score, of those that still have a file, if any has it.

    Of an even number the better of the two in the middle. A figure of the best run would flatter.
    """
    order = sorted(runs, key=_goodness)
    with_file = [rank for rank, run in enumerate(order) if (run.path / file).exists()]
    ranks = with_file or range(len(order))
    return order[min(ranks, key=lambda rank: abs(rank - len(order) / 2))]


def describe_run(run: Run, runs: Sequence[Run]) -> str:
    """Which run is shown, and out of how many."""
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
    """Seed of generated data; None of other data."""
    return (run.config.get("data") or {}).get("seed")


@contextmanager
def noting_damage(charts: Charts) -> Iterator[None]:
    """Leave out what a damaged file would show, and note the file among the charts."""
    try:
        yield
    except DamagedError as error:
        charts.append(Damaged.of(error))


def foci_or_note(run: Run, charts: Charts) -> list[LayerFoci]:
    """The foci of a run; none, and a note among the charts, if their file is damaged."""
    with noting_damage(charts):
        return read_foci(run.path, run.sizes)
    return []


def ends_or_note(run: Run, which: str, charts: Charts) -> dict[str, tuple[Array, Array]]:
    """First and last mu or sigma of every layer; none, and a note, if their file is damaged."""
    with noting_damage(charts):
        return first_and_last(run.path, which)
    return {}


def table_tags(rows: Rows) -> dict[str, str]:
    """What the rows of a table are about, for filters."""
    columns = ("experiment", "size", "variant", "data", "model")
    return {name: joined(row[name] for row in rows) for name in columns if name in rows[0]}


def protocols_to_show(names: Iterable[str]) -> list[str]:
    """Protocols worth a figure: the paper's and the honest one; the last epoch if there is none."""
    known = set(names)
    return [name for name in ("best_test", "holdout") if name in known] or sorted(known)


def numbers(counts: Iterable[int]) -> str:
    """Numbers of runs for a panel: n = 5, n = 3 to 5."""
    distinct = sorted(set(counts))
    return "n = " + " to ".join(map(str, dict.fromkeys([distinct[0], distinct[-1]])))


def run_count(counts: Iterable[int]) -> str:
    """Numbers of runs in words: 1 run, 5 runs, 3 to 5 runs."""
    distinct = sorted(set(counts))
    if len(distinct) > 1:
        return f"{distinct[0]} to {distinct[-1]} runs"
    return f"{distinct[0]} run{'s' if distinct[0] > 1 else ''}"


def joined(values: Iterable[Any]) -> str:
    """Distinct values as one tag."""
    return " ".join(dict.fromkeys(map(str, values)))


def score_charts(
    edition: Edition,
    settings: Sequence[Setting],
    title: str,
    columns: Callable[[Setting, str], Row],
    caption: Callable[[Sequence[Setting], Rows, str], str],
    draw: Callable[[Sequence[Setting], Rows, str], Figure],
) -> list[Chart]:
    """A figure of settings for every protocol.

    ``columns`` are those of a setting besides its options; ``caption`` and ``draw`` take settings,
    their rows and protocol.
    """
    charts = []
    for protocol in protocols_to_show(name for setting in settings for name in setting.scores):
        scored = [setting for setting in settings if protocol in setting.scores]
        rows = [
            {
                **edition.tags(),
                **setting.about(),
                "protocol": protocol,
                **columns(setting, protocol),
            }
            for setting in scored
        ]
        charts.append(
            edition.chart(
                (edition.experiment, protocol),
                title,
                caption(scored, rows, protocol),
                rows,
                partial(draw, scored, rows, protocol),
                protocol=protocol,
            )
        )
    return charts


def titled(title: str, *words: str) -> str:
    """A title with words in brackets behind it, if there are any."""
    return f"{title} ({', '.join(words)})" if words else title
