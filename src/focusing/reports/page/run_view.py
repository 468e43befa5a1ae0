"""What the page of a run shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from focusing.reports.names import PROTOCOLS, data_name, model_name
from focusing.reports.page.overview import duration
from focusing.reports.page.run_foci import foci_of
from focusing.reports.page.run_series import DIGITS, series_panels, short
from focusing.reports.tables import NOTHING, Unit, number
from focusing.reports.terminal import PROTOCOL_MEANINGS as PROTOCOL_WORDS
from focusing.results.collect import Run
from focusing.results.frame import show_value

MOST_MEASURED = 60
"""Numbers that callbacks measured; the record has all."""
FEW = 10
"""Numbers of a list that is shown."""


def run_view(run: Run) -> dict[str, Any]:
    """Values for the template of a run."""
    record = run.record()
    return {
        "run": run,
        "title": f"{model_name(run.model)} on {data_name(run.data)}, seed {run.seed}",
        "folder": "/".join(run.path.parts[-3:]),
        "scores": _scores(run),
        "facts": dict(_facts(run)),
        "environment": dict(_environment(run, record)),
        "measured": dict(list(_leaves("", run.measured))[:MOST_MEASURED]),
        "config": "\n".join(_lines(run.config)),
        "content": {
            "curves": series_panels(record.get("series") or {}, run.epochs),
            "marks": {name: epoch + 1 for name, epoch in run.epochs.items()},
            "score": {"accuracy": "acc"}.get(run.metric, run.metric),
            "foci": foci_of(run.path / "focus.npz", run.sizes.get("informative")),
            "pruning": _pruning(run),
        },
    }


def _scores(run: Run) -> list[dict[str, str]]:
    unit = Unit(run.metric)
    return [
        {
            "protocol": name,
            "value": number(unit.factor * run.scores[name]),
            "unit": "%" if run.metric == "accuracy" else run.metric.upper(),
            "words": f"{PROTOCOL_WORDS[name]} (epoch {run.epochs[name] + 1})",
        }
        for name in PROTOCOLS
        if name in run.scores
    ]


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "experiment", run.experiment
    yield "size, variant", f"{run.size}, {run.variant}"
    held = f", {run.holdout:.0%} of the training data held out" if run.holdout else ""
    yield "protocol", f"{run.protocol}{held}"
    parts = [
        f"{run.sizes[part]:,} {part}" for part in ("train", "val", "test") if _count(run, part)
    ]
    yield (
        "data",
        f"{data_name(run.data)}, {run.source}" + (f": {', '.join(parts)}" if parts else ""),
    )
    for name in ("inputs", "classes"):
        if _count(run, name):
            yield name, f"{run.sizes[name]:,}"
    for name in ("parameters", "trained", "connections", "multiply_adds"):
        if run.network.get(name):
            yield name.replace("_", "-"), f"{run.network[name]:,}"
    for layer, path in run.focus.items():
        moved, first, last = (path.get(key) for key in ("moved", "sigma_first", "sigma_last"))
        if None not in (moved, first, last):
            yield (
                f"foci of {layer}",
                f"moved {number(moved, 3)} on average, σ {number(first, 3)} → {number(last, 3)}",
            )
        if "inside_last" in path:
            shares = (number(100 * path[key], 0) for key in ("inside_first", "inside_last"))
            yield "foci among informative inputs", " % → ".join(shares) + " %"
    if run.seconds is not None:
        yield "training time", duration(run.seconds)
    if run.steps_per_second:
        yield "steps per second", f"{run.steps_per_second:,.0f}"
    if run.peak_memory:
        yield "peak memory", f"{run.peak_memory / 2**20:,.0f} MiB"


def _count(run: Run, name: str) -> bool:
    return isinstance(run.sizes.get(name), int) and bool(run.sizes[name])


def _environment(run: Run, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    git = run.git or {}
    if git.get("commit"):
        yield "commit", f"{git['commit'][:12]}{', with changes' if git.get('dirty') else ''}"
    yield from ((name, str(version)) for name, version in run.versions.items())
    for name, value in (record.get("machine") or {}).items():
        yield name.replace("_", " "), str(value)
    trainer = run.config.get("trainer") or {}
    for name in ("accelerator", "precision", "deterministic"):
        if name in trainer:
            yield name, str(trainer[name])
    yield "started", run.started.replace("T", " ")
    yield "finished", run.finished.replace("T", " ")
    yield "data fingerprint", run.fingerprint
    yield "config hash", run.config_hash


def _pruning(run: Run) -> dict[str, Any] | None:
    """Accuracy against sparsity; only where the score is an accuracy."""
    curves = run.measured.get("pruning") or {}
    lines = {
        words: [[short(point["sparsity"]), short(point["acc"])] for point in curves[rule]]
        for rule, words in (("curve", "by focus"), ("magnitude", "by magnitude"))
        if curves.get(rule) and "acc" in curves[rule][0]
    }
    return lines or None


def _lines(options: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """The config as YAML; a library takes longer for it than for the rest of the page."""
    for name, value in options.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {show_value(value)}"


def _some(which: Sequence[int], neurons: int) -> str:
    """How many neurons of a layer, and which if they are few; numbers count from 0."""
    count = f"{len(which)} of {neurons}"
    if not 0 < len(which) <= FEW:
        return count
    return f"{count} (neuron{'s' * (len(which) > 1)} {', '.join(map(str, which))})"


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Single numbers and words, by their path; of long lists the length."""
    if isinstance(value, Mapping) and value.keys() == {"neurons", "stuck"}:
        yield name, _some(value["stuck"], value["neurons"])
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), below)
    elif isinstance(value, bool | int | str):
        yield name, str(value)
    elif isinstance(value, float):
        yield name, f"{value:.{DIGITS}g}"
    elif isinstance(value, list) and 0 < len(value) <= FEW and all(type(v) is int for v in value):
        yield name, ", ".join(map(str, value))
    elif isinstance(value, list):
        yield name, f"{len(value)} values" if value else "none"
    elif value is None:
        yield name, NOTHING
