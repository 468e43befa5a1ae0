"""The random trials in brief: focused minus dense by level of noise, as their table has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from focusing.reports.page.difference import Difference, placed
from focusing.reports.page.findings import PREFERRED
from focusing.reports.page.titles import short_title
from focusing.reports.tables import Table, Unit

WORDS = {
    "all": "all trials",
    "0": "no noise columns",
    "0.5": "half as many noise columns as informative ones",
    "1": "as many noise columns as informative ones",
}


@dataclass(frozen=True)
class Trials:
    """Differences of the trials of one table."""

    title: str
    rows: tuple[Difference, ...]


def noise_differences(tables: Sequence[Table]) -> list[Trials]:
    """One entry for each table of random trials that has pairs."""
    found = []
    for table in tables:
        records = [
            each for each in table.records if each.get("position") == "all" and each.get("pairs")
        ]
        given = {each["protocol"] for each in records}
        first = next((name for name in PREFERRED if name in given), "")
        rows = [
            Difference(
                label=(WORDS.get(each["noise"], str(each["noise"])),),
                data="synthetic",
                model=each["model"],
                other=each["other"],
                protocol=each["protocol"],
                unit=Unit("accuracy"),
                value=each["difference"],
                low=each["low"],
                high=each["high"],
                p=each["p_paired_holm"],
                count=f"{each['pairs']} pairs",
                shown=each["protocol"] == first,
            )
            for each in records
        ]
        if rows:
            found.append(Trials(short_title(table.title), tuple(placed(rows))))
    return found
