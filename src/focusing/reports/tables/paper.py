"""Tables 2, 3 and 4: the paper's number, ours under each protocol, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from focusing.reports.names import PROTOCOLS, edition, model_name
from focusing.reports.paper import Published, PublishedTable, published_tables
from focusing.reports.tables import Cell, Column, Row, Table, number, p_value, signed, text
from focusing.reports.tables.cells import Block, Scored, command, score_cell, score_record
from focusing.reports.tables.sheet import Sheet, compute
from focusing.reports.tables.tests import tests_table
from focusing.results.collect import Collection
from focusing.results.frame import group_by

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
    "paper's; what runs changed is named below the data. Protocols: paper, best test epoch, "
    "which is optimistic; holdout, test at the best validation epoch; last, after the last epoch.",
)
NOTE_HELD = (
    "† from runs that kept part of the training data for validation: fewer samples to learn."
)


def paper_tables(collection: Collection) -> list[Table]:
    """Tables 2 to 4, each followed by its tests: one pair for each size and variant."""
    tables = []
    for experiment, published in published_tables().items():
        groups = group_by(collection.of(experiment), lambda run: (run.size, run.variant))
        if not groups:
            tables.append(_empty(published))
        for size, variant in sorted(groups, key=lambda key: edition(*key)):
            sheet = compute(published, size, variant, groups[size, variant])
            tables.append(_table(sheet))
            if sheet.tested():
                tables.append(tests_table(sheet))
    return tables


def _table(sheet: Sheet) -> Table:
    rows, records = [], []
    commands = Commands(sheet)
    for place, block in enumerate(sheet.blocks):
        for rank, model in enumerate(sheet.models(block)):
            printed = sheet.published.cells.get(block.data, {}).get(model)
            cells = {}
            for protocol in PROTOCOLS:
                score = sheet.scores.get((place, model, protocol))
                if score is None:
                    cells[protocol] = commands.missing(block, model, protocol)
                    continue
                p = sheet.corrected.get((place, model, protocol))
                compared = sheet.comparisons.get((place, model, protocol))
                more = [f"p={p_value(p)}"] if compared and min(compared.n) > 1 else []
                if (place, model, protocol) in sheet.resampled:
                    more.append(f"resampled {p_value(sheet.resampled[place, model, protocol])}")
                cells[protocol] = score_cell(
                    score, *more, bold=model == sheet.best(place, protocol)
                )
                records.append(_record(sheet, place, block, model, protocol, score, printed))
            rows.append(
                Row(
                    (
                        block.head() if rank == 0 else Cell(),
                        text(model_name(model)),
                        _printed(printed),
                        cells["paper"],
                        text(_delta(block, sheet.scores.get((place, model, "paper")), printed)),
                        cells["holdout"],
                        cells["last"],
                    ),
                    {"data": block.data, "model": model, "size": sheet.size},
                    begins=rank == 0,
                )
            )
    held = any(score.mark for score in sheet.scores.values())
    return Table(
        name=sheet.name,
        title=sheet.title,
        columns=(
            Column("data"),
            Column("model"),
            Column("published"),
            Column("paper"),
            Column("Δ", "right"),
            Column("holdout"),
            Column("last"),
        ),
        rows=tuple(rows),
        notes=(*NOTES, *([NOTE_HELD] if held else [])),
        commands=commands.texts(),
        records=tuple(records),
    )


class Commands:
    """Marks of missing cells, one for all models of a block that the same command can fill."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.models: dict[tuple[str, tuple[str, ...], str], list[str]] = {}

    def missing(self, block: Block, model: str, protocol: str) -> Cell:
        """The cell, with its mark."""
        key = (block.data, block.options, "holdout" if protocol == "holdout" else "paper")
        models = self.models.setdefault(key, [])
        if model not in models:
            models.append(model)
        return text(f"missing [{list(self.models).index(key) + 1}]", dim=True)

    def texts(self) -> dict[str, str]:
        """Mark -> command."""
        return {
            str(place + 1): command(
                self.sheet.published.experiment,
                self.sheet.size,
                self.sheet.variant,
                [f"data={data}", f"model={','.join(models)}", *options],
                protocol,
            )
            for place, ((data, options, protocol), models) in enumerate(self.models.items())
        }


def _empty(published: PublishedTable) -> Table:
    filled = command(published.experiment, "paper", "paper", ())
    note = ("No runs yet.",)
    return Table(published.experiment, published.title, (), (), note, {"1": filled})


def _printed(printed: Published | None) -> Cell:
    if printed is None:
        return text("–")
    doubt = "" if printed.possible else "?"
    std = f"{number(printed.std_points)}{doubt}"
    return text(f"{number(printed.mean)} ± {std}", f"best {number(printed.best)}")


def _delta(block: Block, score: Scored | None, printed: Published | None) -> str:
    if score is None or printed is None or not block.as_published:
        return ""
    return signed(score.spread.mean - printed.mean)


def _record(
    sheet: Sheet,
    place: int,
    block: Block,
    model: str,
    protocol: str,
    score: Scored,
    printed: Published | None,
) -> Mapping[str, Any]:
    comparison = sheet.comparisons.get((place, model, protocol))
    runs = block.models[model]
    return {
        "table": sheet.published.experiment,
        "size": sheet.size,
        "variant": sheet.variant,
        "data": block.data,
        "source": block.source,
        "fingerprint": " ".join(sorted({run.fingerprint for run in runs})),
        "options": " ".join(block.options),
        "model": model,
        "protocol": protocol,
        "unit": block.unit.name,
        **score_record(score),
        "published_mean": printed and printed.mean,
        "published_std_ddof0": printed and printed.std_points,
        "published_std_printed": printed and printed.std,
        "published_best": printed and printed.best,
        "minus_published": score.spread.mean - printed.mean
        if printed and block.as_published
        else None,
        "test": comparison and comparison.test,
        "p": comparison and comparison.p,
        "p_holm": sheet.corrected.get((place, model, protocol)),
        "p_resampled": comparison and comparison.p_resampled,
        "p_resampled_holm": sheet.resampled.get((place, model, protocol)),
        "difference": comparison and comparison.difference,
        "difference_low": comparison and comparison.interval and comparison.interval.low,
        "difference_high": comparison and comparison.interval and comparison.interval.high,
        "epochs": block.epochs,
    }
