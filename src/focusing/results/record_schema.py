"""The record of a run, field by field; docs/runs.md and docs/reports.md say what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from focusing.results.identity import current_names
from focusing.results.record import SERIES_OF
from focusing.validation import (
    SCHEMA,
    Check,
    Wrong,
    fields,
    items,
    label,
    mapping,
    name,
    number,
    numbers,
    one_of,
    optional,
    short,
    text,
    truth,
    whole,
)

COUNT, SHARE, POSITIVE = whole(), number(0, 1), number(0)
COUNTS = ("before_dead", "before_live", "after_dead", "after_live")
"""Lists of the histogram of weights at dead and live inputs."""
NEEDED = {
    "dead_inputs": ("file", "dead", "inputs", "before", "after", "histogram"),
    "explanation": ("file", "method", "background", "gap"),
    "timing": ("ratio", "quartiles", "rounds", "device", "threads"),
}
"""What a measurement must have if it has the first of these."""


def _all(check: Check, names: str) -> dict[str, Check]:
    """Fields of the same kind."""
    return dict.fromkeys(names.split(), check)


def _unless_failed(check: Check) -> Check:
    """What a callback measured; if that failed, it says why instead."""
    failed, measured = fields(error=text), optional(check)

    def either(value: Any) -> None:
        (failed if type(value) is dict and "error" in value else measured)(value)

    return either


_POINTS = optional(
    items(fields({"sparsity": SHARE}, threshold=optional(POSITIVE), acc=SHARE, mae=POSITIVE))
)
_CONNECTIONS = fields({"threshold": POSITIVE, "layers": mapping(items(COUNT, 1))})
_WEIGHTS = fields(_all(optional(fields(mean_abs=POSITIVE)), "dead live"))
_PRUNING = fields(curve=_POINTS, magnitude=_POINTS, connections=optional(items(_CONNECTIONS)))
_DEAD_INPUTS = fields(
    {},
    **_all(COUNT, "dead inputs"),
    **_all(_WEIGHTS, "before after"),
    file=name,
    histogram=fields({"edges": numbers, **dict.fromkeys(COUNTS, items(COUNT))}),
)
_EXPLANATION = fields(
    file=name, method=label, background=COUNT, gap=fields(_all(POSITIVE, "largest relative"))
)
_TIMING = fields(
    {},
    **_all(COUNT, "threads rounds"),
    device=label,
    ratio=optional(mapping(optional(POSITIVE))),
    quartiles=optional(mapping(optional(items(POSITIVE, 2, 2)))),
)
_MEASURED = fields(
    stuck=optional(mapping(fields({"neurons": COUNT, "stuck": items(COUNT)}))),
    pruning=_unless_failed(_PRUNING),
    dead_inputs=_unless_failed(_DEAD_INPUTS),
    explanation=_unless_failed(_EXPLANATION),
    timing=_unless_failed(_TIMING),
    compile=fields({"seconds": POSITIVE}),
)
_FOCUS = fields(
    {},
    **_all(POSITIVE, "moved sigma_first sigma_last"),
    **_all(SHARE, "widened inside_first inside_last"),
)
_CONFIG = fields(
    {
        "data": fields(
            {"name": label},
            **_all(optional(COUNT), "seed fold split_seed"),
            augment=fields(),
            split=optional(label),
        ),
        "model": fields({"name": label}),
        "protocol": fields(
            {"name": one_of("best_test", "holdout", "last")}, holdout=optional(SHARE)
        ),
    },
    **_all(label, "size variant"),
    **_all(fields(), "trainer callbacks paths"),
    optim=fields({"batch_size": whole(1)}),
    logger=mapping(optional(fields())),
    sweep=fields({}, **_all(optional(COUNT), "trial trials"), changed=optional(text)),
)
_TRIAL_DATA = fields({"noise": COUNT, "informative": whole(1), "noise_position": label})
"""What tables of random trials read of ``config.data``."""
_DATA = fields(
    {"name": label},
    **_all(COUNT, "train val test classes"),
    source=text,
    fingerprint=name,
    content=optional(name),
    inputs=whole(1),
    shape=items(whole(1)),
    informative=optional(items(COUNT, 2, 2)),
    domains=optional(mapping(items(COUNT, 2, 2))),
)
TEST_METRICS = optional(
    fields(
        {},
        **_all(optional(SHARE), "accuracy macro_f1 calibration_error"),
        **_all(optional(POSITIVE), "mae mse"),
        r2=optional(number()),
        confusion_matrix=items(items(COUNT)),
    )
)
"""Of the test data after the last epoch; records of version 1.0 do not have them."""
_RECORD = fields(
    {
        "schema": whole(SCHEMA, SCHEMA),
        **_all(name, "experiment config_hash"),
        "config": _CONFIG,
        "seed": COUNT,
        "status": one_of("done", "failed", "pruned"),
        "scores": mapping(optional(fields({"value": POSITIVE, "epoch": COUNT}))),
    },
    **_all(optional(POSITIVE), "wall_seconds cpu_seconds steps_per_second"),
    **_all(optional(label), "started finished"),
    data=optional(_DATA),
    metric=optional(one_of(*SERIES_OF)),
    error=optional(text),
    network=optional(fields({}, **_all(COUNT, "parameters trained connections multiply_adds"))),
    focus=optional(mapping(_FOCUS)),
    measured=optional(_MEASURED),
    test_metrics=TEST_METRICS,
    series=optional(mapping(numbers)),
    peak_memory_bytes=optional(COUNT),
    versions=optional(mapping(text)),
    git=optional(fields(commit=text, dirty=truth)),
    machine=optional(fields()),
)


def parse(text: str | bytes) -> Any:
    """What a JSON text says.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None


def parse_record(text: str | bytes) -> Any:
    """What a JSON text says, in today's names; it is not checked to be a record.

    Raises:
        ValueError: it is not JSON.
    """
    return current_names(parse(text))


def check_record(record: Any) -> None:
    """Refuse what is no record.

    Args:
        record: what was read; its series may have been taken out.

    Raises:
        Wrong: with the path of the first value that is not as it should be.
    """
    if type(record) is not dict or "schema" not in record:
        raise Wrong("was not written by focusing")
    if record["schema"] != SCHEMA:
        raise Wrong(f"has schema {short(record['schema'])}, this version reads {SCHEMA}")
    _RECORD(record)
    _check_scores(record)
    _check_data(record)
    _check_measured(record)


def _check_scores(record: Mapping[str, Any]) -> None:
    metric, scores = record.get("metric"), record["scores"]
    lengths = set(map(len, (record.get("series") or {}).values()))
    if len(lengths) > 1:
        raise Wrong("have different lengths", "series")
    for protocol, score in scores.items():
        if score is None:
            continue
        if metric is None:
            raise Wrong("is missing", "metric")
        if metric == "accuracy" and score["value"] > 1:
            raise Wrong(f"is {score['value']}, not a share", "value", protocol, "scores")
        if lengths and score["epoch"] >= max(lengths):
            raise Wrong("is after the last epoch", "epoch", protocol, "scores")
    chosen = record["config"]["protocol"]["name"]
    if record["status"] == "done" and not scores.get(chosen):
        raise Wrong("is missing", chosen, "scores")


def _check_data(record: Mapping[str, Any]) -> None:
    data = record.get("data") or {}
    region = data.get("informative")
    if region and not region[0] < region[1] <= data.get("inputs", 0):
        raise Wrong("are not among the inputs", "informative", "data")
    config = record["config"]
    for group, options in config.items():
        if isinstance(options, dict) and not isinstance(options.get("_target_", ""), str):
            raise Wrong("is not a text", "_target_", group, "config")
    if (config.get("sweep") or {}).get("trial") is not None:
        _TRIAL_DATA(config["data"])


def _check_measured(record: Mapping[str, Any]) -> None:
    for layer, path in (record.get("focus") or {}).items():
        if ("inside_first" in path) != ("inside_last" in path):
            raise Wrong("has only one of inside_first and inside_last", layer, "focus")
    measured = record.get("measured") or {}
    for layer, counted in (measured.get("stuck") or {}).items():
        if len(counted["stuck"]) > counted["neurons"]:
            raise Wrong("has more stuck neurons than neurons", layer, "stuck", "measured")
    pruning = measured.get("pruning") or {}
    for rule in ("curve", "magnitude"):
        score = SERIES_OF.get(record.get("metric") or "")
        if any(score not in point for point in pruning.get(rule) or ()):
            raise Wrong(f"has points without {score}", rule, "pruning", "measured")
    for name_, needed in NEEDED.items():
        analysis = measured.get(name_) or {}
        trigger, *others = needed
        for other in others if analysis.get(trigger) else ():
            if other not in analysis:
                raise Wrong("is missing", other, name_, "measured")
    histogram = (measured.get("dead_inputs") or {}).get("histogram") or {}
    if len({len(histogram.get(key, ())) for key in COUNTS}) > 1 or (
        histogram and len(histogram["edges"]) != len(histogram[COUNTS[0]]) + 1
    ):
        raise Wrong("has lists of different lengths", "histogram", "dead_inputs", "measured")
    timing = measured.get("timing") or {}
    for kind, ratio in (timing.get("ratio") or {}).items():
        if ratio is not None and not (timing["quartiles"] or {}).get(kind):
            raise Wrong("is missing", kind, "quartiles", "timing", "measured")
