"""Tables 2, 3 and 4 and their t-tests: published numbers beside ours under every protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from focusing.reports.names import MODELS, PROTOCOLS, dense_twin, model_name
from focusing.reports.paper import Published, PublishedTable, published_tables
from focusing.reports.plans import command
from focusing.reports.scores import SCORES_NOTE, p_lines
from focusing.reports.settings import Edition, Setting, block_head, editions
from focusing.reports.tables import (
    BLOCK_HEAD,
    MODEL,
    NOTHING,
    SIGNIFICANT,
    Cell,
    Column,
    Record,
    Table,
    Unit,
    format_interval,
    interval_record,
    make_table,
    number,
    p_value,
    signed,
    text,
)
from focusing.results.collect import Collection
from focusing.results.frame import group_by
from focusing.results.stats import Comparison

NOTES = (
    f"{SCORES_NOTE}, and p against the first model of the block, Holm-corrected over this table "
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


def paper_tables(collection: Collection) -> list[Table]:
    """Tables 2 to 4 and their tests, for every edition; a command for those without runs."""
    tables = []
    for experiment, published in published_tables().items():
        with_runs = [one for one in editions(collection) if one.experiment == experiment]
        if not with_runs:
            fill = {"1": command(experiment, "full", "text", ())}
            tables.append(Table(experiment, published.title, (), (), ("No runs yet.",), fill))
        for edition in with_runs:
            blocks = list(_blocks(edition, published))
            tables.append(_scores_table(edition, published, blocks))
            if any(test.t_student is not None for test in edition.tests.values()):
                tables.append(_tests_table(edition, published, blocks))
    return tables


Block = tuple[str, Mapping[str, Setting | None]]
"""A data set and its models: the paper's, also those without runs, then others that were run."""


def _blocks(edition: Edition, published: PublishedTable) -> Iterator[Block]:
    """The blocks of a table in the paper's order, also of data without runs."""
    by_data = group_by(edition.blocks, lambda key: key[0])
    for data in dict.fromkeys((*published.cells, *by_data)):
        known = list(published.cells.get(data, ()))
        for block in [edition.blocks[key] for key in by_data.get(data, ())] or [{}]:
            order = [*MODELS, *sorted(block)]
            others = sorted(set(block) - set(known), key=order.index)
            yield data, {model: block.get(model) for model in (*known, *others)}


def _scores_table(edition: Edition, published: PublishedTable, blocks: Sequence[Block]) -> Table:
    records: list[Record] = []
    missing: dict[tuple[str, tuple[str, ...], str], dict[str, None]] = {}  # models of a command
    for place, (data, block) in enumerate(blocks):
        settings = [setting for setting in block.values() if setting]
        typed = settings[0].overrides if settings else ()
        unit = Unit("mae" if data == "boston" else "accuracy")
        head = settings[0].head() if settings else block_head(data, unit)
        winners = {protocol: _winner(edition, settings, protocol) for protocol in PROTOCOLS}
        for (model, setting), protocol in product(block.items(), PROTOCOLS):
            printed = published.cells.get(data, {}).get(model)
            about: Record = {
                "data": data,
                "model": model,
                "protocol": protocol,
                "size": edition.size,
                "_row": (place, model),
                "_block": place,
                "_head": head,
                "_printed": printed,
            }
            if setting and protocol in setting.scores:
                test = edition.tests.get((setting, protocol))
                bold = setting is winners[protocol]
                cell = setting.scores[protocol].cell(*p_lines(test), bold=bold)
                record = _record(edition, setting, protocol, printed)
                records.append({**record, **about, "_cell": cell})
                continue
            run = data, typed, "holdout" if protocol == "holdout" else "best_test"
            missing.setdefault(run, {})[model] = None
            cell = text(f"missing [{list(missing).index(run) + 1}]", dim=True)
            records.append({**about, "_missing": True, "_cell": cell})
    commands = {
        str(mark): edition.command([f"data={data}", f"model={','.join(models)}", *typed], trained)
        for mark, ((data, typed, trained), models) in enumerate(missing.items(), start=1)
    }
    held = any(score.mark for setting in edition.settings for score in setting.scores.values())
    notes = (*NOTES, NOTE_HELD) if held else NOTES
    return make_table(
        edition.table_name(), f"{edition.title} {edition.qualifier}", SCORE_COLUMNS, records, notes,
        tags=("data", "model", "size"), commands=commands,
    )  # fmt: skip


def _winner(edition: Edition, settings: Sequence[Setting], protocol: str) -> Setting | None:
    """The setting with the best mean, if it differs significantly from the dense one.

    If the dense one is best, it must differ significantly from the next best.
    """
    scored = [setting for setting in settings if protocol in setting.scores]
    if len(scored) < 2 or len({setting.scores[protocol].trained_on for setting in scored}) > 1:
        return None
    sign = -1 if scored[0].unit.lower_is_better else 1
    first, second = sorted(scored, key=lambda one: -sign * one.scores[protocol].spread.mean)[:2]
    is_base = first.model == dense_twin(second.model)
    test = edition.tests.get((second if is_base else first, protocol))
    p = test.p_decisive if test else None
    return first if p is not None and p < SIGNIFICANT else None


def _record(edition: Edition, setting: Setting, protocol: str, printed: Published | None) -> Record:
    test = edition.tests.get((setting, protocol))
    score = setting.scores[protocol]
    comparable = printed if setting.as_published and not score.mark else None
    return {
        "table": edition.experiment,
        "size": edition.size,
        "variant": edition.variant,
        "data": setting.data,
        "source": setting.source,
        "fingerprint": " ".join(sorted({run.fingerprint for run in setting.runs})),
        "options": " ".join(setting.overrides),
        "model": setting.model,
        "protocol": protocol,
        "unit": setting.unit.name,
        **score.record(),
        "published_mean": printed and printed.mean,
        "published_std_ddof0": printed and printed.std_points,
        "published_std_printed": printed and printed.std,
        "published_best": printed and printed.best,
        "minus_published": comparable and score.spread.mean - comparable.mean,
        **_of_test(test, "test p p_holm p_resampled p_resampled_holm difference"),
        **interval_record(test.interval if test else None, "difference_"),
        "epochs": setting.epochs,
    }


def _of_test(test: Comparison | None, names: str) -> Record:
    return {name: getattr(test, name, None) for name in names.split()}


def _tests_table(edition: Edition, published: PublishedTable, blocks: Sequence[Block]) -> Table:
    """Tests of every model against the dense one of its block."""
    records = [
        {**_test_record(setting, protocol, test, published), "_block": place}
        for place, (_, block) in enumerate(blocks)
        for protocol in PROTOCOLS
        for setting in filter(None, block.values())
        if (test := edition.tests.get((setting, protocol))) and test.t_student is not None
    ]
    return make_table(
        f"{edition.table_name()}_tests", f"{edition.title} {edition.qualifier}: t-tests",
        TEST_COLUMNS, records, [NOTE_TESTS], tags=("data", "model", "protocol"),
    )  # fmt: skip


def _test_record(
    setting: Setting, protocol: str, test: Comparison, published: PublishedTable
) -> Record:
    printed = published.tests.get(setting.data)
    as_published = setting.as_published and protocol == "best_test"
    if not as_published or printed is None or printed.models != (test.other, setting.model):
        printed = None
    return {
        **setting.block_columns(),
        "model": setting.model,
        "other": test.other,
        "protocol": protocol,
        "n_model": test.n[0],
        "n_other": test.n[1],
        "pairs": test.pairs,
        "difference": test.difference,
        **interval_record(test.interval),
        "interval": test.interval and test.interval.method,
        **_of_test(test, "t_student p_student p_welch p_paired"),
        **_of_test(test, "p_resampled p_resampled_holm test p p_holm"),
        **_of_test(test, "hedges_g probability_of_improvement"),
        "published_t": printed and -printed.t,  # the paper subtracts the other way round
        "published_p": printed and printed.p,
        "_head": setting.head(),
        "_interval": test.interval,
    }


def _published_cell(record: Record) -> Cell:
    printed: Published | None = record["_printed"]
    if printed is None:
        return text(NOTHING)
    std = f"{number(printed.std_points)}{'' if printed.possible else '?'}"
    return text(f"{number(printed.mean)} ± {std}", f"best {number(printed.best)}")


def _gap_cell(record: Record) -> str:
    gap = record.get("minus_published")
    return "" if gap is None else signed(gap)


def _p_cell(p: float | None, corrected: float | None) -> Cell:
    holm_line = "" if corrected is None else f"Holm {p_value(corrected)}"
    bold = corrected is not None and corrected < SIGNIFICANT
    return text(holm_line, f"p={p_value(p)}", bold=bold)


def _test_cell(test: str, p: str) -> Callable[[Record], Cell]:
    """Show a p-value, with its Holm correction if this is the test that counts."""
    return lambda record: _p_cell(record[p], record["p_holm"] if record["test"] == test else None)


def _comparison_cell(record: Record) -> Cell:
    models = f"{model_name(record['model'])} − {model_name(record['other'])}"
    return text(models, f"{record['protocol']}, n={record['n_model']}/{record['n_other']}")


def _difference_cell(record: Record) -> Cell:
    return text(signed(record["difference"]), format_interval(record["_interval"], sign=True))


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


SCORE_COLUMNS = (
    BLOCK_HEAD,
    MODEL,
    Column("published", show=_published_cell),
    Column("best_test", show="_cell", select="best_test"),
    Column("Δ", "right", _gap_cell, select="best_test"),
    Column("holdout", show="_cell", select="holdout"),
    Column("last", show="_cell", select="last"),
)
TEST_COLUMNS = (
    BLOCK_HEAD,
    Column("comparison", show=_comparison_cell),
    Column("difference", "right", _difference_cell),
    Column("Student", "right", _student_cell),
    Column("Welch", "right", _test_cell("Welch", "p_welch")),
    Column("paired", "right", _test_cell("paired", "p_paired")),
    Column("resampled", "right", _resampled_cell),
    Column("g", "right", "hedges_g"),
    Column("P(better)", "right", "probability_of_improvement"),
    Column("published", "right", _published_test_cell),
)
