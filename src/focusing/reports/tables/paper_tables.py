"""Tables 2, 3 and 4 and their t-tests: the paper's numbers, ours under every protocol, the gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

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
from focusing.reports.tables.run_blocks import Block, blocks, command, editions
from focusing.reports.tables.scores import Pair, Scored, Tested, compare_pairs, scored
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by
from focusing.results.stats import Comparison

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


@dataclass(frozen=True)
class Sheet:
    """One table of the paper at one size and in one variant, computed but not yet printed.

    Attributes:
        published: the paper's numbers.
        size: ``full``, ``short``, ``quick`` or ``smoke``.
        variant: ``text`` or ``author``.
        blocks: what may be compared.
        scores: by block, model and protocol.
        tests: of a model against the first of its block, see :func:`compare_pairs`.
    """

    published: PublishedTable
    size: str
    variant: str
    blocks: list[Block]
    scores: dict[Place, Scored]
    tests: dict[Place, Tested]

    def models(self, block: Block) -> list[str]:
        """The paper's models on this data, then those that were run besides."""
        return _models(self.published, block)

    def tested(self) -> dict[Place, Comparison]:
        """Comparisons with enough runs for a test."""
        tests = {place: tested.comparison for place, tested in self.tests.items()}
        return {place: test for place, test in tests.items() if test.t is not None}

    @property
    def corrected(self) -> dict[Place, float | None]:
        """Their p after Holm's correction."""
        return {place: tested.p for place, tested in self.tests.items()}

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


def _models(published: PublishedTable, block: Block) -> list[str]:
    known = list(published.cells.get(block.data, ()))
    order = [*MODELS, *sorted(block.models)]  # a dense one first: others are tested against it
    return known + sorted(set(block.models) - set(known), key=order.index)


def compute(published: PublishedTable, size: str, variant: str, runs: Sequence[Run]) -> Sheet:
    """All scores and tests of a table; in Holm's correction a data set counts once."""
    by_data = group_by(blocks(runs), lambda block: block.data)
    order = dict.fromkeys((*published.cells, *by_data))
    every = [block for data in order for block in by_data.get(data) or [Block(data, "", 0, (), {})]]
    scores: dict[Place, Scored] = {}
    pairs: dict[Place, Pair] = {}
    for (place, block), protocol in product(enumerate(every), PROTOCOLS):
        first, *_ = models = _models(published, block)
        for model in models:
            score = scored(block.models.get(model, []), protocol)
            if score is None:
                continue
            scores[place, model, protocol] = score
            base = scores.get((place, first, protocol))
            if base and model != first:
                label, fake = (block.data, model), block.source == "fake"
                pairs[place, model, protocol] = Pair(
                    score, base, block.unit.lower_is_better, fake, label, first, block.rank
                )
    return Sheet(published, size, variant, every, scores, compare_pairs(pairs))


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
                trained = "holdout" if protocol == "holdout" else "best_test"
                models = missing.setdefault((block.data, block.options, trained), [])
                models += [model] if model not in models else []
                mark = list(missing).index((block.data, block.options, trained)) + 1
                cells[protocol] = text(f"missing [{mark}]", dim=True)
            gap = _minus_published(block, sheet.scores.get((place, model, "best_test")), printed)
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
    about = sheet.published.experiment, sheet.size, sheet.variant
    commands = {
        str(mark): command(
            *about, [f"data={data}", f"model={','.join(models)}", *options], protocol
        )
        for mark, ((data, options, protocol), models) in enumerate(missing.items(), start=1)
    }
    titles = ("data", "model", "published", "best_test", "Δ", "holdout", "last")
    columns = tuple(Column(title, "right" if title == "Δ" else "left") for title in titles)
    held = any(score.mark for score in sheet.scores.values())
    notes = (*NOTES, NOTE_HELD) if held else NOTES
    return Table(sheet.name, sheet.title, columns, tuple(rows), notes, commands, tuple(records))


def _score_cell(sheet: Sheet, place: Place) -> Cell:
    tested = sheet.tests.get(place)
    more = []
    if tested and min(tested.comparison.n) > 1:
        more.append(f"p={p_value(tested.p)}")
    if tested and tested.comparison.p_resampled is not None:
        more.append(f"resampled {p_value(tested.p_resampled)}")
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
    score, tested = sheet.scores[place], sheet.tests.get(place)
    test = tested and tested.comparison
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
        "test": test and test.test,
        "p": test and test.p,
        "p_holm": tested and tested.p,
        "p_resampled": test and test.p_resampled,
        "p_resampled_holm": tested and tested.p_resampled,
        "difference": test and test.difference,
        **interval_record(test.interval if test else None, "difference_"),
        "epochs": block.epochs,
    }


def _tests_table(sheet: Sheet) -> Table:
    """The tests of a table of the paper: every model against the first of its block."""
    records: list[Record] = []
    for place, test in sorted(sheet.tested().items(), key=lambda item: item[0][0]):
        number_, model, protocol = place
        block = sheet.blocks[number_]
        base = sheet.models(block)[0]
        printed = sheet.published.tests.get(block.data)
        same = block.as_published and protocol == "best_test"
        if not same or printed is None or printed.models != (base, model):
            printed = None
        begins = not records or records[-1]["_block"] != number_
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
                "p_resampled_holm": sheet.tests[place].p_resampled,
                "test": test.test,
                "p": test.p,
                "p_holm": sheet.tests[place].p,
                "hedges_g": test.g,
                "probability_of_improvement": test.improvement,
                "published_t": printed and -printed.t,  # the paper subtracts the other way round
                "published_p": printed and printed.p,
                "_block": number_,
                "_head": block.head() if begins else Cell(),
                "_interval": test.interval,
            }
        )
    tags = ("data", "model", "protocol")
    title = f"{sheet.title}: t-tests"
    return table_of(f"{sheet.name}_tests", title, TEST_COLUMNS, records, [NOTE_TESTS], tags)


def _p_cell(p: float | None, corrected: float | None) -> Cell:
    holm_line = "" if corrected is None else f"Holm {p_value(corrected)}"
    bold = corrected is not None and corrected < SIGNIFICANT
    return text(holm_line, f"p={p_value(p)}", bold=bold)


def _test_cell(test: str, p: str) -> Callable[[Record], Cell]:
    """A p; with Holm's correction if its test is the one that counts."""
    return lambda record: _p_cell(record[p], record["p_holm"] if record["test"] == test else None)


def _comparison_cell(record: Record) -> Cell:
    models = f"{model_name(record['model'])} − {model_name(record['other'])}"
    return text(models, f"{record['protocol']}, n={record['n_model']}/{record['n_other']}")


def _difference_cell(record: Record) -> Cell:
    return text(signed(record["difference"]), between(record["_interval"], sign=True))


def _student_cell(record: Record) -> Cell:
    return text(f"t={number(record['t_student'])}", f"p={p_value(record['p_student'])}")


def _resampled_cell(record: Record) -> Cell:
    p = record["p_resampled"]
    return Cell() if p is None else _p_cell(p, record["p_resampled_holm"])


def _published_test_cell(record: Record) -> Cell:
    t = record["published_t"]
    if t is None:
        return Cell()
    digits = 2 if abs(t) >= 0.01 else 3
    return text(f"t={number(t, digits)}", f"p={p_value(record['published_p'])}")


TEST_COLUMNS = (
    Column("data", show=lambda record: record["_head"]),
    Column("comparison", show=_comparison_cell),
    Column("difference", "right", _difference_cell),
    Column("Student", "right", _student_cell),
    Column("Welch", "right", _test_cell("Welch", "p_welch")),
    Column("paired", "right", _test_cell("paired", "p_paired")),
    Column("resampled", "right", _resampled_cell),
    Column("g", "right", lambda record: number(record["hedges_g"])),
    Column("P(better)", "right", lambda record: number(record["probability_of_improvement"])),
    Column("published", "right", _published_test_cell),
)
