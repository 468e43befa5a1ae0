"""A table of the paper, computed from runs: scores, comparisons, corrected p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from focusing.reports.names import MODELS, PROTOCOLS
from focusing.reports.paper import PublishedTable
from focusing.reports.tables.cells import Block, Scored, blocks, scored
from focusing.results.collect import Run
from focusing.results.frame import group_by
from focusing.results.stats import Comparison, compare, holm

SIGNIFICANT = 0.05
Place = tuple[int, str, str]
"""Number of a block, model, protocol."""


@dataclass
class Sheet:
    """One table of the paper at one size and in one variant, computed but not yet written.

    Attributes:
        published: the paper's numbers.
        size: ``paper``, ``short``, ``quick`` or ``smoke``.
        variant: ``paper`` or ``author``.
        blocks: what may be compared.
        scores: of each model under each protocol.
        comparisons: of each model with the first of its block.
        corrected: their p after Holm's correction.
        resampled: the same with the corrected resampled t-test where splits overlap; only those.
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
        order = [
            *MODELS,
            *sorted(block.models),
        ]  # a dense one first: it is what others are tested against
        return known + sorted(set(block.models) - set(known), key=order.index)

    def tested(self) -> dict[Place, Comparison]:
        """Comparisons with enough runs for a test."""
        return {place: each for place, each in self.comparisons.items() if each.t is not None}

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.published.experiment}_{self.size}_{self.variant}"

    @property
    def title(self) -> str:
        """In print."""
        return f"{self.published.title} (size={self.size}, variant={self.variant})"

    def best(self, place: int, protocol: str) -> str | None:
        """The model with the best mean, if its distance to the first is more than chance.

        If it is the first itself, its distance to the next best is meant.
        """
        sign = -1 if self.blocks[place].unit.lower_is_better else 1
        found = {
            model: score
            for (number, model, name), score in self.scores.items()
            if (number, name) == (place, protocol)
        }
        if len(found) < 2 or len({score.trained_on for score in found.values()}) > 1:
            return None
        winner, second = sorted(found, key=lambda model: -sign * found[model].spread.mean)[:2]
        first = self.models(self.blocks[place])[0]
        p = self.corrected.get((place, second if winner == first else winner, protocol))
        return winner if p is not None and p < SIGNIFICANT else None


def compute(published: PublishedTable, size: str, variant: str, runs: Sequence[Run]) -> Sheet:
    """All scores and tests of a table."""
    found = group_by(blocks(runs), lambda block: block.data)
    order = [*published.cells, *(data for data in found if data not in published.cells)]
    every = [block for data in order for block in found.get(data) or [Block(data, "", 0, (), {})]]
    sheet = Sheet(published, size, variant, every)
    for place, block in enumerate(every):
        first, *others = sheet.models(block)
        lower = block.unit.lower_is_better
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
                        lower_is_better=lower,
                        paired=ours.paired and base.paired,
                        overlap=ours.overlap,
                    )
    _correct(sheet)
    return sheet


def _correct(sheet: Sheet) -> None:
    """Holm's correction, in which a data set counts once, whatever the lengths it was run at."""
    # Three views of the same runs: each is a family of its own. Fake data say nothing on others.
    families = group_by(
        sheet.comparisons, lambda place: (place[2], sheet.blocks[place[0]].source == "fake")
    )
    for family in families.values():
        places = sorted(family, key=lambda place: sheet.blocks[place[0]].rank)
        labels = [(sheet.blocks[number].data, model) for number, model, _ in places]
        found = [sheet.comparisons[place] for place in places]
        usual = holm([each.p for each in found], labels)
        sheet.corrected.update(zip(places, usual, strict=True))
        resampled = [each.p if each.p_resampled is None else each.p_resampled for each in found]
        for place, each, p in zip(places, found, holm(resampled, labels), strict=True):
            if each.p_resampled is not None:
                sheet.resampled[place] = p
