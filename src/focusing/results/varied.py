"""Repeats on other data: runs that differ in the seed of generated data alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from focusing.results.groups import group_by
from focusing.results.run import Run

OPTION = "data.seed"
VARIED = "varied"
"""In place of the seeds of the data: each run has data of its own."""


def with_varied_data(
    runs: Sequence[Run], flat: Mapping[Run, Mapping[str, Any]]
) -> list[tuple[Run, Mapping[str, Any]]]:
    """Runs with their settings, where data sets that have a single run each are one setting.

    That setting holds all runs of its seed, so one on data that other seeds were run on, too, is in
    two settings: among the repeats on the same data, and among those on other data.

    Args:
        runs: of an experiment.
        flat: the settings of each.
    """
    alike = group_by(runs, lambda run: _but_data(run, flat[run]))
    single, varied = set(), []
    for group in alike.values():
        places = group_by(group, lambda run: json.dumps(flat[run].get(OPTION)))
        lone = group_by(
            (there[0] for there in places.values() if len(there) == 1), lambda run: run.seed
        )
        for seed, found in lone.items():
            if len(found) > 1:
                single.update(found)
                varied += [run for run in group if run.seed == seed]
    return [
        *((run, flat[run]) for run in runs if run not in single),
        *((run, {**flat[run], OPTION: VARIED}) for run in varied),
    ]


def _but_data(run: Run, settings: Mapping[str, Any]) -> str:
    others = {name: value for name, value in settings.items() if name != OPTION}
    return json.dumps([others, run.model, run.holdout], sort_keys=True)
