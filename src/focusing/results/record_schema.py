"""Schema of a run's record; docs/runs.md and docs/reports.md describe the fields."""

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

from focusing.results.identity import rename_legacy_values
from focusing.results.record import METRIC_KEYS
from focusing.validation import (
    AT_LEAST_ONE,
    COUNT,
    LABEL,
    NAME,
    NON_NEGATIVE,
    PROTOCOL,
    SHARE,
    TEXT,
    InvalidValueError,
    make_validator,
    object_schema,
    short_repr,
)

SCHEMA = 1
RANGE = items(COUNT, min_length=2, max_length=2)
COUNTS = ("before_dead", "before_live", "after_dead", "after_live")
"""Keys of the counts in the histogram of weights at dead and live inputs."""


def _all(schema: CoreSchema, names: str) -> dict[str, CoreSchema]:
    """Fields with the same schema."""
    return dict.fromkeys(names.split(), schema)


def _objects(schema: CoreSchema) -> CoreSchema:
    """Schema of an object with arbitrary keys."""
    return dict_schema(values_schema=schema)


def _unless_failed(schema: CoreSchema) -> CoreSchema:
    """Schema of a callback's results, which are ``{"error": ...}`` if the callback failed."""

    def check(value: Any, handler: Any) -> Any:
        failed = isinstance(value, dict) and value.keys() == {"error"}
        return value if failed else handler(value)

    return no_info_wrap_validator_function(check, optional(schema))


_POINTS = optional(
    items(
        object_schema(
            {"sparsity": SHARE}, threshold=optional(NON_NEGATIVE), acc=SHARE, mae=NON_NEGATIVE
        )
    )
)
_LAYERS = _objects(items(COUNT, min_length=1))
_CONNECTIONS = object_schema({"threshold": NON_NEGATIVE, "layers": _LAYERS})
_WEIGHTS = object_schema(_all(optional(object_schema({"mean_abs": NON_NEGATIVE})), "dead live"))
_PRUNING = object_schema(
    {}, curve=_POINTS, magnitude=_POINTS, connections=optional(items(_CONNECTIONS))
)
_DEAD_INPUTS = object_schema(
    {
        "file": NAME,
        **_all(COUNT, "dead inputs"),
        **_all(_WEIGHTS, "before after"),
        "histogram": object_schema(
            {"edges": items(float_schema()), **dict.fromkeys(COUNTS, items(COUNT))}
        ),
    }
)
_EXPLANATION = object_schema(
    {
        "file": NAME,
        "method": LABEL,
        "background": COUNT,
        "gap": object_schema(_all(NON_NEGATIVE, "largest relative")),
    }
)
_TIMING = object_schema(
    {
        **_all(COUNT, "threads rounds"),
        "device": LABEL,
        "ratio": optional(_objects(optional(NON_NEGATIVE))),
        "quartiles": optional(_objects(optional(items(NON_NEGATIVE, min_length=2, max_length=2)))),
    }
)
_ANYTHING = object_schema({})
_MEASURED = object_schema(
    {},
    stuck=optional(_objects(object_schema({"neurons": COUNT, "stuck": items(COUNT)}))),
    pruning=_unless_failed(_PRUNING),
    dead_inputs=_unless_failed(_DEAD_INPUTS),
    explanation=_unless_failed(_EXPLANATION),
    timing=_unless_failed(_TIMING),
    compile=object_schema({"seconds": NON_NEGATIVE}),
)
_FOCUS = object_schema(
    {},
    **_all(NON_NEGATIVE, "moved sigma_first sigma_last"),
    **_all(SHARE, "widened inside_first inside_last"),
)
_CONFIG = object_schema(
    {
        "data": object_schema(
            {"name": LABEL},
            **_all(optional(COUNT), "seed fold split_seed"),
            augment=_ANYTHING,
            split=optional(LABEL),
        ),
        "model": object_schema({"name": LABEL}),
        "protocol": object_schema({"name": PROTOCOL}, holdout=optional(SHARE)),
    },
    **_all(LABEL, "size variant"),
    **_all(_ANYTHING, "callbacks paths"),
    trainer=object_schema({}, max_epochs=optional(COUNT)),
    optim=object_schema({"batch_size": AT_LEAST_ONE}),
    logger=_objects(optional(_ANYTHING)),
    sweep=object_schema({}, **_all(optional(COUNT), "trial trials"), changed=optional(TEXT)),
)
_TRIAL_DATA = make_validator(
    object_schema({"noise": COUNT, "informative": AT_LEAST_ONE, "noise_position": LABEL})
)
"""The options of ``config.data`` that tables of random trials need."""
_DATA = object_schema(
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
    object_schema(
        {},
        **_all(optional(SHARE), "accuracy macro_f1 calibration_error"),
        **_all(optional(NON_NEGATIVE), "mae mse"),
        r2=optional(float_schema()),
        confusion_matrix=items(items(COUNT)),
    )
)
"""Metrics on the test data after the last epoch; the oldest records do not have them."""
_RECORD = make_validator(
    object_schema(
        {
            "schema": int_schema(),
            **_all(NAME, "experiment config_hash"),
            "config": _CONFIG,
            "seed": COUNT,
            "status": literal_schema(["done", "failed", "pruned"]),
            "scores": _objects(optional(object_schema({"value": NON_NEGATIVE, "epoch": COUNT}))),
        },
        **_all(optional(NON_NEGATIVE), "wall_seconds cpu_seconds steps_per_second"),
        **_all(optional(LABEL), "started finished"),
        data=optional(_DATA),
        metric=optional(literal_schema(list(METRIC_KEYS))),
        error=optional(TEXT),
        network=optional(
            object_schema({}, **_all(COUNT, "parameters trained connections multiply_adds"))
        ),
        focus=optional(_objects(_FOCUS)),
        measured=optional(_MEASURED),
        test_metrics=_TEST_METRICS,
        series=optional(_objects(items(optional(float_schema())))),
        peak_memory_bytes=optional(COUNT),
        versions=optional(_objects(TEXT)),
        git=optional(object_schema({}, commit=TEXT, dirty=bool_schema())),
        machine=optional(_ANYTHING),
    )
)


def parse(text: str | bytes) -> Any:
    """Parse JSON; raises a ValueError with a short message."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None


def parse_record(text: str | bytes) -> Any:
    """Parse the JSON of a record, and replace legacy names; :func:`check_record` validates it."""
    return rename_legacy_values(parse(text))


def check_record(record: Any) -> None:
    """Validate a record, with or without its series.

    Raises:
        InvalidValueError: with the path of the first invalid value.
    """
    if type(record) is not dict or "schema" not in record:
        raise InvalidValueError("was not written by focusing")
    if record["schema"] != SCHEMA:
        raise InvalidValueError(
            f"has schema {short_repr(record['schema'])}, this version reads {SCHEMA}"
        )
    _RECORD(record)
    _check_scores(record)
    _check_data(record)
    _check_measured(record)


def _check_scores(record: Mapping[str, Any]) -> None:
    metric, scores = record.get("metric"), record["scores"]
    lengths = set(map(len, (record.get("series") or {}).values()))
    if len(lengths) > 1:
        raise InvalidValueError("have different lengths", "series")
    for protocol, score in scores.items():
        if score is None:
            continue
        if metric is None:
            raise InvalidValueError("is missing", "metric")
        if metric == "accuracy" and score["value"] > 1:
            raise InvalidValueError(
                f"is {score['value']}, not a share", "scores", protocol, "value"
            )
        if lengths and score["epoch"] >= max(lengths):
            raise InvalidValueError("is after the last epoch", "scores", protocol, "epoch")
    chosen = record["config"]["protocol"]["name"]
    if record["status"] == "done" and not scores.get(chosen):
        raise InvalidValueError("is missing", "scores", chosen)


def _check_data(record: Mapping[str, Any]) -> None:
    data = record.get("data") or {}
    region = data.get("informative")
    if region and not region[0] < region[1] <= data.get("inputs", 0):
        raise InvalidValueError("are not among the inputs", "data", "informative")
    config = record["config"]
    for group, options in config.items():
        if isinstance(options, dict) and not isinstance(options.get("_target_", ""), str):
            raise InvalidValueError("is not a text", "config", group, "_target_")
    if (config.get("sweep") or {}).get("trial") is not None:
        _TRIAL_DATA(config["data"])


def _check_measured(record: Mapping[str, Any]) -> None:
    for layer, path in (record.get("focus") or {}).items():
        if ("inside_first" in path) != ("inside_last" in path):
            raise InvalidValueError("has only one of inside_first and inside_last", "focus", layer)
    measured = record.get("measured") or {}
    for layer, counted in (measured.get("stuck") or {}).items():
        if len(counted["stuck"]) > counted["neurons"]:
            raise InvalidValueError(
                "has more stuck neurons than neurons", "measured", "stuck", layer
            )
    pruning = measured.get("pruning") or {}
    for rule in ("curve", "magnitude"):
        score = METRIC_KEYS.get(record.get("metric") or "")
        if any(score not in point for point in pruning.get(rule) or ()):
            raise InvalidValueError(f"has points without {score}", "measured", "pruning", rule)
    histogram = (measured.get("dead_inputs") or {}).get("histogram") or {}
    if len({len(histogram.get(key, ())) for key in COUNTS}) > 1 or (
        histogram and len(histogram["edges"]) != len(histogram[COUNTS[0]]) + 1
    ):
        raise InvalidValueError(
            "has lists of different lengths", "measured", "dead_inputs", "histogram"
        )
    timing = measured.get("timing") or {}
    for kind, ratio in (timing.get("ratio") or {}).items():
        if ratio is not None and not (timing["quartiles"] or {}).get(kind):
            raise InvalidValueError("is missing", "measured", "timing", "quartiles", kind)
