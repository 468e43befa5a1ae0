"""What the W&B workspace shows, as plain values: built by wandb-workspaces, or written as code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focusing.reports.names import DATA, data_name
from focusing.reports.tables.trial_tables import BASE
from focusing.reports.upload.trials import KEY
from focusing.results.collect import Run
from focusing.training.wandb_run import PRUNING

LABEL = "config.label"
"""A bar is a mean over runs of one model, size, variant and protocol in one experiment."""


@dataclass(frozen=True)
class Number:
    """A number of a run's summary, as an axis."""

    name: str

    def __repr__(self) -> str:
        return f"wr.SummaryMetric({self.name!r})"


@dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes:
        kind: its class in ``wandb_workspaces.reports.v2``.
        options: of that class.
    """

    kind: str
    options: Mapping[str, Any]

    def code(self) -> str:
        """As Python."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"wr.{self.kind}({options})"

    def build(self) -> Any:
        """As an object of wandb-workspaces."""
        import wandb_workspaces.reports.v2 as wr
        from wandb_workspaces.reports.v2.interface import SummaryMetric

        given = {
            name: SummaryMetric(value.name) if isinstance(value, Number) else value
            for name, value in self.options.items()
        }
        return getattr(wr, self.kind)(**given)


Sections = Mapping[str, Sequence[Panel]]


def sections(runs: Sequence[Run] = ()) -> dict[str, list[Panel]]:
    """The sections of the workspace, each with its panels.

    Args:
        runs: what it is for: their data sets and layers; none: all of the paper's.
    """
    metrics = {run.data: run.metric for run in runs} or dict.fromkeys(DATA, "accuracy")
    layers = sorted({layer for run in runs for layer in run.focus}) or ["hidden1", "hidden2"]
    trials = [run.model for run in runs if run.trial is not None and run.model != BASE]
    focused = sorted(set(trials)) or ["focus_s"]
    order = [*DATA, *sorted(set(metrics) - set(DATA))]
    return {
        "Accuracy by model and data set": [
            _bars(data_name(data), f"{metrics[data]}/{data}") for data in order if data in metrics
        ],
        "Table 1: random trials": [_scatter(model) for model in focused],
        "Foci": list(_foci(layers)),
        "Sparsity": [
            _line("Focused connections dropped", PRUNING, "pruning/focus_acc"),
            _line("By threshold", "pruning/threshold", "pruning/focus_acc"),
            _line("Smallest weights dropped", PRUNING, "pruning/magnitude_acc"),
        ],
        "Timing": [
            _bars("Training step, focused over dense", "timing/ratio/train"),
            _bars("Test, focused over folded", "timing/ratio/test"),
            _bars("Seconds per epoch", "timing/epoch_seconds"),
            _bars("Training steps per second", "steps_per_second"),
            Panel(
                "ScatterPlot",
                {
                    "title": "Score against seconds of training",
                    "x": Number("wall_seconds"),
                    "y": Number("score/paper"),
                },
            ),
        ],
        "Training": [
            _line("Training loss", "epoch", "train/loss"),
            _line("Test loss", "epoch", "test/loss"),
            _line("Test accuracy", "epoch", "test/acc"),
        ],
    }


def _bars(title: str, metric: str) -> Panel:
    options = {
        "title": title,
        "metrics": [metric],
        "groupby": LABEL,
        "groupby_aggfunc": "mean",
        "groupby_rangefunc": "stddev",
    }
    return Panel("BarPlot", options)


def _line(title: str, x: str, y: str) -> Panel:
    return Panel("LinePlot", {"title": title, "x": x, "y": [y]})


def _foci(layers: Sequence[str]) -> Iterator[Panel]:
    for layer in layers:
        yield Panel("MediaBrowser", {"title": f"Foci of {layer}", "media_keys": [f"focus/{layer}"]})
        yield _bars(f"How far the foci of {layer} moved", f"focus/{layer}/moved")


def _scatter(model: str) -> Panel:
    options = {
        "query": {"summaryTable": {"tableKey": f"{KEY}_table"}},
        "chart_name": "wandb/scatter/v0",
        "chart_fields": {"x": BASE, "y": model},
        "chart_strings": {"title": f"{model} against {BASE}, test accuracy of each trial"},
    }
    return Panel("CustomChart", options)
