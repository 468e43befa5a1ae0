"""Tables 2, 3 and 4 and their t-tests: the paper's numbers, ours under every protocol, the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from focusing.reports.names import MODELS, PROTOCOLS, model_name
from focusing.reports.paper import Published, PublishedTable, published_tables
from focusing.reports.tables import (
    NOTHING,
    Cell,
    Column,
    Record,
    Row,
    Table,
    between,
    interval_record,
    number,
    p_value,
    signed,
    table_of,
    text,
)
from focusing.reports.tables.run_blocks import Block, Scored, blocks, command, editions, scored
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by
from focusing.results.stats import Comparison, compare, holm

SIGNIFICANT = 0.05
NOTES = (
    "Test accuracy in percent (MAE: mean absolute error, less is better, MSE: mean squared error "
    "at the same epochs): mean ± standard deviation (ddof=1), 95 % interval of the mean "
    "(Student's t; bootstrap from 20 runs on), "
    "number of runs, and p against the first model of the block, Holm-corrected over this table "
    "under the same protocol: of the paired t-test where repeats are folds or splits of the data, "
    "else of Welch's. A data set counts once in that correction, however many lengths it was run "
    "at (the one as published, else the longest). Resampled: p of the corrected resampled t-test, "
    "where repeats are random splits, whose test sets overlap. Bold: the best mean of a block, if "
    "p < 0.05 between it and the first model (if it is the first itself: the next best).",
    "Published: mean ± standard deviation and best. The paper prints deviations with ddof=0, most "
    "of them as a fraction beside a percentage; here all are in points. ?: five repeats with this "
    "mean and this best cannot have that deviation. "
    "Δ: ours under the paper's protocol − published, where size, data and options are the "
    "paper's; what runs changed is named below the data. Protocols: best_test, best test epoch, "
    "which is optimistic; holdout, test at the best validation epoch; last, after the last epoch.",
)
NOTE_HELD = (
    "† from runs that kept part of the training data for validation: fewer samples to learn."
)
NOTE_TESTS = (
    "Difference of means with 95 % interval, in points or units of the MAE. Two-sided t-tests: "
    "Student's with equal variances, as in the paper; Welch's; paired. Where repeats are folds or "
    "splits of the data and all pair up, the paired test counts, else Welch's: the interval is "
    "that test's, and its p is also given after Holm's correction over the tests of this table "
    "under the same protocol (bold: below 0.05), in which a data set counts once, whatever its "
    "lengths. Resampled: the paired test corrected for random splits, whose test sets overlap "
    "(Nadeau and Bengio), with the same correction. Intervals are not corrected. Fake data are a "
    "family of their own. g: Hedges' g. P(better): probability that a run of the "
    "first model beats one of the second, over all pairs, a tie counting half. The signs of "
    "published t are those of the comparison."
)

Place = tuple[int, str, str]
"""Number of a block, model, protocol."""


@dataclass
class Sheet:
    """One table of the paper at one size and in one variant, computed but not yet printed.

    Attributes:
        published: the paper's numbers.
        size: ``full``, ``short``, ``quick`` or ``smoke``.
        variant: ``text`` or ``author``.
        blocks: what may be compared.
        scores: by block, model and protocol.
        comparisons: of a model with the first of its block.
        corrected: their p after Holm's correction.
        resampled: the same with the corrected resampled t-test, where splits overlap.
    """

    published: PublishedTable
    size: str
    variant: str
    blocks: list[Block]
    scores: dict[Place, Scored] = field(default_factory=dict)
    comparisons: dict[Place, Comparison] = field(default_factory=dict)
    corrected: dict[Place, float | None] = field(default_factory=dict)
    resampled: dict[Place, float | None] = field(default_factory=dict)

    def models(self, block: Block) -> list[str]:
        """The paper's models on this data, then those that were run besides."""
        known = list(self.published.cells.get(block.data, ()))
        order = [*MODELS, *sorted(block.models)]  # a dense one first: others are tested against it
        return known + sorted(set(block.models) - set(known), key=order.index)

    def tested(self) -> dict[Place, Comparison]:
        """Comparisons with enough runs for a test."""
        return {place: one for place, one in self.comparisons.items() if one.t is not None}

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.published.experiment}_{self.size}_{self.variant}"

    @property
    def title(self) -> str:
        """In print."""
        return f"{self.published.title} (size={self.size}, variant={self.variant})"

    def best(self, number: int, protocol: str) -> str | None:
        """The model with the best mean, if its distance to the first is more than chance.

        If it is the first itself, its distance to the next best is meant.
        """
        block = self.blocks[number]
        scores = {
            model: score
            for model in self.models(block)
            if (score := self.scores.get((number, model, protocol)))
        }
        if len(scores) < 2 or len({score.trained_on for score in scores.values()}) > 1:
            return None
        sign = -1 if block.unit.lower_is_better else 1
        winner, second = sorted(scores, key=lambda model: -sign * scores[model].spread.mean)[:2]
        first = self.models(block)[0]
        p = self.corrected.get((number, second if winner == first else winner, protocol))
        return winner if p is not None and p < SIGNIFICANT else None


def compute(published: PublishedTable, size: str, variant: str, runs: Sequence[Run]) -> Sheet:
    """All scores and tests of a table."""
    by_data = group_by(blocks(runs), lambda block: block.data)
    order = dict.fromkeys((*published.cells, *by_data))
    every = [block for data in order for block in by_data.get(data) or [Block(data, "", 0, (), {})]]
    sheet = Sheet(published, size, variant, every)
    for place, block in enumerate(every):
        first, *others = sheet.models(block)
        for protocol in PROTOCOLS:
            for model in [first, *others]:
                score = scored(block.models.get(model, []), protocol)
                if score is not None:
                    sheet.scores[place, model, protocol] = score
            base = sheet.scores.get((place, first, protocol))
            for model in others:
                ours = sheet.scores.get((place, model, protocol))
                if base and ours and base.trained_on == ours.trained_on:
                    sheet.comparisons[place, model, protocol] = compare(
                        ours.values,
                        base.values,
                        lower_is_better=block.unit.lower_is_better,
                        paired=ours.paired and base.paired,
                        overlap=ours.overlap,
                    )
    _correct(sheet)
    return sheet


def _correct(sheet: Sheet) -> None:
    """Holm's correction, in which a data set counts once, whatever the lengths it was run at."""
    # Three views of the same runs: a family per protocol. Fake data say nothing about others.
    families = group_by(
        sheet.comparisons, lambda place: (place[2], sheet.blocks[place[0]].source == "fake")
    )
    for family in families.values():
        places = sorted(family, key=lambda place: sheet.blocks[place[0]].rank)
        labels = [(sheet.blocks[number].data, model) for number, model, _ in places]
        tests = [sheet.comparisons[place] for place in places]
        usual = holm([test.p for test in tests], labels)
        sheet.corrected.update(zip(places, usual, strict=True))
        resampled = [test.p if test.p_resampled is None else test.p_resampled for test in tests]
        for place, test, p in zip(places, tests, holm(resampled, labels), strict=True):
            if test.p_resampled is not None:
                sheet.resampled[place] = p


def paper_tables(collection: Collection) -> list[Table]:
    """Tables 2 to 4, with their tests: one pair for every size and variant."""
    tables = []
    for experiment, published in published_tables().items():
        runs = collection.of(experiment)
        if not runs:
            fill = {"1": command(experiment, "full", "text", ())}
            tables.append(Table(experiment, published.title, (), (), ("No runs yet.",), fill))
        for about, members in editions(runs):
            sheet = compute(published, about["size"], about["variant"], members)
            tables.append(_scores_table(sheet))
            if sheet.tested():
                tables.append(_tests_table(sheet))
    return tables


def _scores_table(sheet: Sheet) -> Table:
    rows, records = [], []
    missing: dict[tuple[str, tuple[str, ...], str], list[str]] = {}  # models that a command adds
    for place, block in enumerate(sheet.blocks):
        for rank, model in enumerate(sheet.models(block)):
            printed = sheet.published.cells.get(block.data, {}).get(model)
            cells = {}
            for protocol in PROTOCOLS:
                if (place, model, protocol) in sheet.scores:
                    cells[protocol] = _score_cell(sheet, (place, model, protocol))
                    records.append(_record(sheet, (place, model, protocol), printed))
                    continue
                key = (
                    block.data,
                    block.options,
                    "holdout" if protocol == "holdout" else "best_test",
                )
                models = missing.setdefault(key, [])
                if model not in models:
                    models.append(model)
                cells[protocol] = text(f"missing [{list(missing).index(key) + 1}]", dim=True)
            ours = sheet.scores.get((place, model, "best_test"))
            gap = _minus_published(block, ours, printed)
            row = (
                block.head() if rank == 0 else Cell(),
                text(model_name(model)),
                _published_cell(printed),
                cells["best_test"],
                text("" if gap is None else signed(gap)),
                cells["holdout"],
                cells["last"],
            )
            tags = {"data": block.data, "model": model, "size": sheet.size}
            rows.append(Row(row, tags, begins=rank == 0))
    commands = {
        str(mark): command(
            sheet.published.experiment,
            sheet.size,
            sheet.variant,
            [f"data={data}", f"model={','.join(models)}", *options],
            protocol,
        )
        for mark, ((data, options, protocol), models) in enumerate(missing.items(), start=1)
    }
    titles = ("data", "model", "published", "best_test", "Δ", "holdout", "last")
    columns = tuple(Column(title, "right" if title == "Δ" else "left") for title in titles)
    held = any(score.mark for score in sheet.scores.values())
    notes = (*NOTES, NOTE_HELD) if held else NOTES
    return Table(sheet.name, sheet.title, columns, tuple(rows), notes, commands, tuple(records))


def _score_cell(sheet: Sheet, place: Place) -> Cell:
    comparison = sheet.comparisons.get(place)
    more = []
    if comparison and min(comparison.n) > 1:
        more.append(f"p={p_value(sheet.corrected.get(place))}")
    if place in sheet.resampled:
        more.append(f"resampled {p_value(sheet.resampled[place])}")
    number, model, protocol = place
    return sheet.scores[place].cell(*more, bold=model == sheet.best(number, protocol))


def _published_cell(printed: Published | None) -> Cell:
    if printed is None:
        return text(NOTHING)
    std = f"{number(printed.std_points)}{'' if printed.possible else '?'}"
    return text(f"{number(printed.mean)} ± {std}", f"best {number(printed.best)}")


def _minus_published(block: Block, ours: Scored | None, printed: Published | None) -> float | None:
    if ours is None or printed is None or not block.as_published:
        return None
    return ours.spread.mean - printed.mean


def _record(sheet: Sheet, place: Place, printed: Published | None) -> Record:
    block, (_, model, protocol) = sheet.blocks[place[0]], place
    score, comparison = sheet.scores[place], sheet.comparisons.get(place)
    return {
        "table": sheet.published.experiment,
        "size": sheet.size,
        "variant": sheet.variant,
        "data": block.data,
        "source": block.source,
        "fingerprint": " ".join(sorted({run.fingerprint for run in block.models[model]})),
        "options": " ".join(block.options),
        "model": model,
        "protocol": protocol,
        "unit": block.unit.name,
        **score.record(),
        "published_mean": printed and printed.mean,
        "published_std_ddof0": printed and printed.std_points,
        "published_std_printed": printed and printed.std,
        "published_best": printed and printed.best,
        "minus_published": _minus_published(block, score, printed),
        "test": comparison and comparison.test,
        "p": comparison and comparison.p,
        "p_holm": sheet.corrected.get(place),
        "p_resampled": comparison and comparison.p_resampled,
        "p_resampled_holm": sheet.resampled.get(place),
        "difference": comparison and comparison.difference,
        **interval_record(comparison.interval if comparison else None, "difference_"),
        "epochs": block.epochs,
    }


def _tests_table(sheet: Sheet) -> Table:
    """The tests of a table of the paper: every model against the first of its block."""
    records = []
    last = -1
    for place, test in sorted(sheet.tested().items(), key=lambda item: item[0][0]):
        number_, model, protocol = place
        block = sheet.blocks[number_]
        base = sheet.models(block)[0]
        printed = sheet.published.tests.get(block.data)
        same = block.as_published and protocol == "best_test"
        if not same or printed is None or printed.models != (base, model):
            printed = None
        records.append(
            {
                "data": block.data,
                "source": block.source,
                "options": " ".join(block.options),
                "model": model,
                "other": base,
                "protocol": protocol,
                "n_model": test.n[0],
                "n_other": test.n[1],
                "pairs": test.pairs,
                "difference": test.difference,
                **interval_record(test.interval),
                "interval": test.interval and test.interval.method,
                "t_student": test.t,
                "p_student": test.p_student,
                "p_welch": test.p_welch,
                "p_paired": test.p_paired,
                "p_resampled": test.p_resampled,
                "p_resampled_holm": sheet.resampled.get(place),
                "test": test.test,
                "p": test.p,
                "p_holm": sheet.corrected[place],
                "hedges_g": test.g,
                "probability_of_improvement": test.improvement,
                "published_t": printed and -printed.t,  # the paper subtracts the other way round
                "published_p": printed and printed.p,
                "_block": number_,
                "_head": block.head() if number_ != last else Cell(),
                "_interval": test.interval,
            }
        )
        last = number_
    columns = (
        Column("data", show=lambda record: record["_head"]),
        Column("comparison", show=_comparison_cell),
        Column("difference", "right", _difference_cell),
        Column(
            "Student",
            "right",
            lambda record: text(
                f"t={number(record['t_student'])}", f"p={p_value(record['p_student'])}"
            ),
        ),
        Column("Welch", "right", lambda record: _test_cell(record, "Welch", "p_welch")),
        Column("paired", "right", lambda record: _test_cell(record, "paired", "p_paired")),
        Column("resampled", "right", _resampled_cell),
        Column("g", "right", lambda record: number(record["hedges_g"])),
        Column("P(better)", "right", lambda record: number(record["probability_of_improvement"])),
        Column("published", "right", _published_test_cell),
    )
    tags = ("data", "model", "protocol")
    title = f"{sheet.title}: t-tests"
    return table_of(f"{sheet.name}_tests", title, columns, records, [NOTE_TESTS], tags)


def _comparison_cell(record: Record) -> Cell:
    models = f"{model_name(record['model'])} − {model_name(record['other'])}"
    return text(models, f"{record['protocol']}, n={record['n_model']}/{record['n_other']}")


def _difference_cell(record: Record) -> Cell:
    return text(signed(record["difference"]), between(record["_interval"], sign=True))


def _test_cell(record: Record, test: str, p: str) -> Cell:
    return _p_cell(record[p], record["p_holm"] if record["test"] == test else None)


def _resampled_cell(record: Record) -> Cell:
    p = record["p_resampled"]
    return Cell() if p is None else _p_cell(p, record["p_resampled_holm"])


def _p_cell(p: float | None, corrected: float | None) -> Cell:
    holm_line = "" if corrected is None else f"Holm {p_value(corrected)}"
    bold = corrected is not None and corrected < SIGNIFICANT
    return text(holm_line, f"p={p_value(p)}", bold=bold)


def _published_test_cell(record: Record) -> Cell:
    t = record["published_t"]
    if t is None:
        return Cell()
    digits = 2 if abs(t) >= 0.01 else 3
    return text(f"t={number(t, digits)}", f"p={p_value(record['published_p'])}")
