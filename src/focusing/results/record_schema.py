"""The record of a run, field by field; docs/runs.md and docs/reports.md say what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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
FAILED = fields(error=text)


def _unless_failed(check: Check) -> Check:
    """What a callback measured; if that failed, it says why instead."""

    def either(value: Any) -> None:
        (FAILED if type(value) is dict and "error" in value else optional(check))(value)

    return either


POINT = fields({"sparsity": SHARE}, threshold=optional(POSITIVE), acc=SHARE, mae=POSITIVE)
SIZES = optional(fields(mean_abs=POSITIVE))
WHEN = fields({"dead": SIZES, "live": SIZES})
COUNTS = ("before_dead", "before_live", "after_dead", "after_live")
NEEDED = {
    "dead_inputs": ("file", "dead", "inputs", "before", "after", "histogram"),
    "explanation": ("file", "method", "background", "gap"),
    "timing": ("ratio", "quartiles", "rounds", "device", "threads"),
}
"""What a measurement must have if it has the first of these."""
ANALYSES = {
    "pruning": fields(
        curve=optional(items(POINT)),
        magnitude=optional(items(POINT)),
        connections=optional(
            items(
                fields({"threshold": POSITIVE, "layers": mapping(items(COUNT, 1))}),
            )
        ),
    ),
    "dead_inputs": fields(
        dead=COUNT,
        inputs=COUNT,
        file=name,
        before=WHEN,
        after=WHEN,
        histogram=fields({"edges": numbers, **dict.fromkeys(COUNTS, items(COUNT))}),
    ),
    "explanation": fields(
        file=name,
        method=label,
        background=COUNT,
        gap=fields({"largest": POSITIVE, "relative": POSITIVE}),
    ),
    "timing": fields(
        device=label,
        threads=COUNT,
        rounds=COUNT,
        ratio=optional(mapping(optional(POSITIVE))),
        quartiles=optional(mapping(optional(items(POSITIVE, 2, 2)))),
    ),
}
MEASURED: dict[str, Check] = {
    "stuck": optional(mapping(fields({"neurons": COUNT, "stuck": items(COUNT)}))),
    **{what: _unless_failed(check) for what, check in ANALYSES.items()},
}
LAYER = fields(
    moved=POSITIVE,
    sigma_first=POSITIVE,
    sigma_last=POSITIVE,
    widened=SHARE,
    inside_first=SHARE,
    inside_last=SHARE,
)
CONFIG = fields(
    {
        "data": fields(
            {"name": label},
            augment=fields(),
            seed=optional(COUNT),
            fold=optional(COUNT),
            split_seed=optional(COUNT),
            split=optional(label),
        ),
        "model": fields({"name": label}),
        "protocol": fields({"name": one_of("paper", "holdout", "last")}, holdout=optional(SHARE)),
    },
    size=label,
    variant=label,
    optim=fields({"batch_size": whole(1)}),
    trainer=fields(),
    callbacks=fields(),
    logger=mapping(optional(fields())),
    paths=fields(),
    sweep=fields(trial=optional(COUNT), trials=optional(COUNT), changed=optional(text)),
)
DATA = fields(
    {"name": label},
    source=text,
    fingerprint=name,
    content=optional(name),
    train=COUNT,
    val=COUNT,
    test=COUNT,
    inputs=whole(1),
    classes=COUNT,
    shape=items(whole(1)),
    informative=optional(items(COUNT, 2, 2)),
)
DRAWN = fields({"noise": COUNT, "informative": whole(1), "noise_position": label})
"""What tables of random trials read of ``config.data``."""
SCORE = optional(fields({"value": POSITIVE, "epoch": COUNT}))
TEST_METRICS = optional(
    fields(
        accuracy=optional(SHARE),
        macro_f1=optional(SHARE),
        calibration_error=optional(SHARE),
        confusion_matrix=items(items(COUNT)),
        mae=optional(POSITIVE),
        mse=optional(POSITIVE),
        r2=optional(number()),
    )
)
"""Of the test data after the last epoch; records of version 1.0 do not have them."""
RECORD = fields(
    {
        "schema": whole(SCHEMA, SCHEMA),
        "experiment": name,
        "config": CONFIG,
        "config_hash": name,
        "seed": COUNT,
        "status": one_of("done", "failed", "pruned"),
        "scores": mapping(SCORE),
    },
    data=optional(DATA),
    metric=optional(one_of(*SERIES_OF)),
    error=optional(text),
    network=optional(
        fields(parameters=COUNT, trained=COUNT, connections=COUNT, multiply_adds=COUNT)
    ),
    focus=optional(mapping(LAYER)),
    measured=optional(fields({}, **MEASURED)),
    test_metrics=TEST_METRICS,
    series=optional(mapping(numbers)),
    wall_seconds=optional(POSITIVE),
    cpu_seconds=optional(POSITIVE),
    steps_per_second=optional(POSITIVE),
    peak_memory_bytes=optional(COUNT),
    versions=optional(mapping(text)),
    git=optional(fields(commit=text, dirty=truth)),
    machine=optional(fields()),
    started=optional(label),
    finished=optional(label),
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
    RECORD(record)
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
        DRAWN(config["data"])


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
        given = measured.get(name_) or {}
        trigger, *others = needed
        for other in others if given.get(trigger) else ():
            if other not in given:
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
