"""The record of a run, field by field; docs/runs.md and docs/reports.md say what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import CoreSchema
from pydantic_core.core_schema import (
    bool_schema,
    dict_schema,
    float_schema,
    int_schema,
    literal_schema,
    no_info_wrap_validator_function,
)
from pydantic_core.core_schema import list_schema as items
from pydantic_core.core_schema import nullable_schema as optional

from focusing.results.identity import current_names
from focusing.results.record import SERIES_OF
from focusing.validation import (
    AT_LEAST_ONE,
    COUNT,
    LABEL,
    NAME,
    POSITIVE,
    PROTOCOL,
    SHARE,
    TEXT,
    Wrong,
    checker,
    fields,
    short,
)

SCHEMA = 1
RANGE = items(COUNT, min_length=2, max_length=2)
COUNTS = ("before_dead", "before_live", "after_dead", "after_live")
"""Lists of the histogram of weights at dead and live inputs."""


def _all(schema: CoreSchema, names: str) -> dict[str, CoreSchema]:
    """Fields of the same kind."""
    return dict.fromkeys(names.split(), schema)


def _objects(schema: CoreSchema) -> CoreSchema:
    """An object of any names."""
    return dict_schema(values_schema=schema)


def _unless_failed(schema: CoreSchema) -> CoreSchema:
    """What an analysis measured; one that failed says why, and nothing else."""

    def check(value: Any, handler: Any) -> Any:
        failed = isinstance(value, dict) and value.keys() == {"error"}
        return value if failed else handler(value)

    return no_info_wrap_validator_function(check, optional(schema))


_POINTS = optional(
    items(fields({"sparsity": SHARE}, threshold=optional(POSITIVE), acc=SHARE, mae=POSITIVE))
)
_LAYERS = _objects(items(COUNT, min_length=1))
_CONNECTIONS = fields({"threshold": POSITIVE, "layers": _LAYERS})
_WEIGHTS = fields(_all(optional(fields({"mean_abs": POSITIVE})), "dead live"))
_PRUNING = fields({}, curve=_POINTS, magnitude=_POINTS, connections=optional(items(_CONNECTIONS)))
_DEAD_INPUTS = fields(
    {
        "file": NAME,
        **_all(COUNT, "dead inputs"),
        **_all(_WEIGHTS, "before after"),
        "histogram": fields(
            {"edges": items(float_schema()), **dict.fromkeys(COUNTS, items(COUNT))}
        ),
    }
)
_EXPLANATION = fields(
    {
        "file": NAME,
        "method": LABEL,
        "background": COUNT,
        "gap": fields(_all(POSITIVE, "largest relative")),
    }
)
_TIMING = fields(
    {
        **_all(COUNT, "threads rounds"),
        "device": LABEL,
        "ratio": optional(_objects(optional(POSITIVE))),
        "quartiles": optional(_objects(optional(items(POSITIVE, min_length=2, max_length=2)))),
    }
)
_ANYTHING = fields({})
_MEASURED = fields(
    {},
    stuck=optional(_objects(fields({"neurons": COUNT, "stuck": items(COUNT)}))),
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
            {"name": LABEL},
            **_all(optional(COUNT), "seed fold split_seed"),
            augment=_ANYTHING,
            split=optional(LABEL),
        ),
        "model": fields({"name": LABEL}),
        "protocol": fields({"name": PROTOCOL}, holdout=optional(SHARE)),
    },
    **_all(LABEL, "size variant"),
    **_all(_ANYTHING, "trainer callbacks paths"),
    optim=fields({"batch_size": AT_LEAST_ONE}),
    logger=_objects(optional(_ANYTHING)),
    sweep=fields({}, **_all(optional(COUNT), "trial trials"), changed=optional(TEXT)),
)
_TRIAL_DATA = checker(
    fields({"noise": COUNT, "informative": AT_LEAST_ONE, "noise_position": LABEL})
)
"""What tables of random trials read of ``config.data``."""
_DATA = fields(
    {"name": LABEL},
    **_all(COUNT, "train val test classes"),
    source=TEXT,
    fingerprint=NAME,
    content=optional(NAME),
    inputs=AT_LEAST_ONE,
    shape=items(AT_LEAST_ONE),
    informative=optional(RANGE),
    domains=optional(_objects(RANGE)),
)
_TEST_METRICS = optional(
    fields(
        {},
        **_all(optional(SHARE), "accuracy macro_f1 calibration_error"),
        **_all(optional(POSITIVE), "mae mse"),
        r2=optional(float_schema()),
        confusion_matrix=items(items(COUNT)),
    )
)
"""Of the test data after the last epoch; the first records do not have them."""
_RECORD = checker(
    fields(
        {
            "schema": int_schema(),
            **_all(NAME, "experiment config_hash"),
            "config": _CONFIG,
            "seed": COUNT,
            "status": literal_schema(["done", "failed", "pruned"]),
            "scores": _objects(optional(fields({"value": POSITIVE, "epoch": COUNT}))),
        },
        **_all(optional(POSITIVE), "wall_seconds cpu_seconds steps_per_second"),
        **_all(optional(LABEL), "started finished"),
        data=optional(_DATA),
        metric=optional(literal_schema(list(SERIES_OF))),
        error=optional(TEXT),
        network=optional(fields({}, **_all(COUNT, "parameters trained connections multiply_adds"))),
        focus=optional(_objects(_FOCUS)),
        measured=optional(_MEASURED),
        test_metrics=_TEST_METRICS,
        series=optional(_objects(items(optional(float_schema())))),
        peak_memory_bytes=optional(COUNT),
        versions=optional(_objects(TEXT)),
        git=optional(fields({}, commit=TEXT, dirty=bool_schema())),
        machine=optional(_ANYTHING),
    )
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
            raise Wrong(f"is {score['value']}, not a share", "scores", protocol, "value")
        if lengths and score["epoch"] >= max(lengths):
            raise Wrong("is after the last epoch", "scores", protocol, "epoch")
    chosen = record["config"]["protocol"]["name"]
    if record["status"] == "done" and not scores.get(chosen):
        raise Wrong("is missing", "scores", chosen)


def _check_data(record: Mapping[str, Any]) -> None:
    data = record.get("data") or {}
    region = data.get("informative")
    if region and not region[0] < region[1] <= data.get("inputs", 0):
        raise Wrong("are not among the inputs", "data", "informative")
    config = record["config"]
    for group, options in config.items():
        if isinstance(options, dict) and not isinstance(options.get("_target_", ""), str):
            raise Wrong("is not a text", "config", group, "_target_")
    if (config.get("sweep") or {}).get("trial") is not None:
        _TRIAL_DATA(config["data"])


def _check_measured(record: Mapping[str, Any]) -> None:
    for layer, path in (record.get("focus") or {}).items():
        if ("inside_first" in path) != ("inside_last" in path):
            raise Wrong("has only one of inside_first and inside_last", "focus", layer)
    measured = record.get("measured") or {}
    for layer, counted in (measured.get("stuck") or {}).items():
        if len(counted["stuck"]) > counted["neurons"]:
            raise Wrong("has more stuck neurons than neurons", "measured", "stuck", layer)
    pruning = measured.get("pruning") or {}
    for rule in ("curve", "magnitude"):
        score = SERIES_OF.get(record.get("metric") or "")
        if any(score not in point for point in pruning.get(rule) or ()):
            raise Wrong(f"has points without {score}", "measured", "pruning", rule)
    histogram = (measured.get("dead_inputs") or {}).get("histogram") or {}
    if len({len(histogram.get(key, ())) for key in COUNTS}) > 1 or (
        histogram and len(histogram["edges"]) != len(histogram[COUNTS[0]]) + 1
    ):
        raise Wrong("has lists of different lengths", "measured", "dead_inputs", "histogram")
    timing = measured.get("timing") or {}
    for kind, ratio in (timing.get("ratio") or {}).items():
        if ratio is not None and not (timing["quartiles"] or {}).get(kind):
            raise Wrong("is missing", "measured", "timing", "quartiles", kind)
