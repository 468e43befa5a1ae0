"""``focusing wandb dashboard``: makes a W&B workspace that compares runs, or code for it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from focusing.errors import UserError
from focusing.reports.names import data_name, data_order
from focusing.reports.report import no_runs_message, search_folders
from focusing.reports.tables.trial_tables import BASE
from focusing.reports.wandb_items import KEY, PROJECT, digest
from focusing.reports.wandb_push import default_entity, one_line, require_server, target_name
from focusing.results.collect import Run, collect
from focusing.results.frame import group_by
from focusing.training.wandb_run import PRUNING

LABEL = "config.label"
"""Bars are means over runs with this label: experiment, model, size, variant and protocol."""
Panel = tuple[str, dict[str, Any]]
"""Name of a class in ``wandb_workspaces.reports.v2``, and its arguments."""
Sections = Mapping[str, Sequence[Panel]]


def sections(runs: Sequence[Run]) -> dict[str, list[Panel]]:
    """Sections of the workspace with their panels: one per experiment, then all runs."""
    experiments = group_by(sorted(runs, key=lambda run: run.experiment), lambda run: run.experiment)
    layers = sorted({layer for run in runs for layer in run.focus})
    speed = {"x": "wall_seconds", "y": "score/best_test"}
    return {name: list(_comparisons(name, members)) for name, members in experiments.items()} | {
        "All runs: training": [
            _line("Training loss", "epoch", "train/loss"),
            _line("Test loss", "epoch", "test/loss"),
            _line("Test accuracy", "epoch", "test/acc"),
            _line("Learning rate of the weights", "epoch", "lr/weight"),
            _bars("Training steps per second", "steps_per_second"),
            ("ScatterPlot", {"title": "Score against seconds of training", **speed}),
        ],
        **({"All runs: foci": list(_foci(layers))} if layers else {}),
    }


def _comparisons(experiment: str, runs: Sequence[Run]) -> Iterator[Panel]:
    """Panels that compare the runs of an experiment."""
    for data in sorted({run.data for run in runs if run.trial is None}, key=data_order):
        yield _bars(data_name(data), f"{experiment}/{data}")
    for model in sorted({run.model for run in runs if run.trial is not None} - {BASE}):
        yield _scatter(model)
    measured = {name for run in runs for name in run.measured}
    if "pruning" in measured:
        yield _line("Focused connections dropped", PRUNING, "pruning/focus_acc")
        yield _line("By threshold", "pruning/threshold", "pruning/focus_acc")
        yield _line("Smallest weights dropped", PRUNING, "pruning/magnitude_acc")
    if "timing" in measured:
        yield _bars("Training step, focused over dense", "timing/ratio/train")
        yield _bars("Test, focused over folded", "timing/ratio/test")
        yield _bars("Seconds per epoch", "timing/epoch_seconds")


def _bars(title: str, metric: str) -> Panel:
    groups = {"groupby": LABEL, "groupby_aggfunc": "mean", "groupby_rangefunc": "stddev"}
    return "BarPlot", {"title": title, "metrics": [metric], **groups}


def _line(title: str, x: str, y: str) -> Panel:
    return "LinePlot", {"title": title, "x": x, "y": [y]}


def _foci(layers: Sequence[str]) -> Iterator[Panel]:
    for layer in layers:
        yield "MediaBrowser", {"title": f"Foci of {layer}", "media_keys": [f"focus/{layer}"]}
        yield _bars(f"How far the foci of {layer} moved", f"focus/{layer}/moved")
        for name in ("mu", "sigma"):
            yield _line(f"Mean {name} of {layer}", "epoch", f"focus/{layer}/{name}_mean")
            yield _line(f"Spread of {name} of {layer}", "epoch", f"focus/{layer}/{name}_std")


def _scatter(model: str) -> Panel:
    options = {
        "query": {"summaryTable": {"tableKey": f"{KEY}_table"}},
        "chart_name": "wandb/scatter/v0",
        "chart_fields": {"x": BASE, "y": model},
        "chart_strings": {"title": f"{model} against {BASE}, test accuracy of each trial"},
    }
    return "CustomChart", options


CODE = '''\
"""A W&B workspace: python {file} makes it, or makes it anew. By focusing wandb dashboard."""

from focusing.reports.wandb_dashboard import make

# Section -> its panels: a class of wandb_workspaces.reports.v2, and its options.
sections = {{
{sections}
}}
print(make(sections, entity={entity!r}, project={project!r}, name={name!r}))
'''


def dashboard(options: argparse.Namespace) -> None:
    """Run ``focusing wandb dashboard`` with its arguments."""
    folders = search_folders(options.folders)
    runs = collect(folders).runs
    if not runs:
        raise UserError(no_runs_message(folders))
    shown = sections(runs)
    project = options.project or PROJECT
    where = target_name(options.entity, project)
    count = sum(map(len, shown.values()))
    described = f"workspace {options.name!r} of {where} with {len(shown)} sections, {count} panels"
    if options.save or options.dry_run:
        file = options.save or Path("dashboard.py")
        lines: list[str] = []
        for title, panels in shown.items():
            lines += [f"    {title!r}: [", *(f"        {panel!r}," for panel in panels), "    ],"]
        text = CODE.format(
            file=file.name,
            sections="\n".join(lines),
            entity=options.entity,
            project=project,
            name=options.name,
        )
        if options.dry_run:
            print(text, end="")
        else:
            file.write_text(text, encoding="utf-8")
            print(f"python {file} will make the {described}.")
        return
    if find_spec("wandb_workspaces") is None:
        raise UserError(
            "focusing wandb dashboard needs a package that is not installed: "
            "pip install 'focusing[wandb-workspaces]'"
        )
    require_server(f"the {described} was not made (--dry-run prints it as code)")
    print(make(shown, entity=options.entity, project=project, name=options.name))


def make(sections: Sections, *, entity: str | None, project: str, name: str) -> str:
    """Make a workspace, or replace the one of the same name.

    Args:
        sections: from :func:`sections`.
        entity: the user or team; None: the default of the API key.
        project: whose runs it shows.
        name: of the workspace.

    Returns:
        Its URL.
    """
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws

    folded = [
        ws.Section(
            name=title,
            panels=[getattr(wr, kind)(**options) for kind, options in panels],
            is_open=False,
        )
        for title, panels in sections.items()
    ]
    workspace: Any = ws.Workspace(
        entity=entity or default_entity(),
        project=project,
        name=name,
        sections=folded,
        # One line per config, in the group of its experiment: seeds are averaged.
        runset_settings=ws.RunsetSettings(groupby=[ws.Metric("Group"), ws.Config("config_hash")]),
    )
    view = digest(name)[:11]
    try:
        workspace._internal_name = f"nw-{view}-v"
        address = f"{workspace.url.partition('?')[0]}?nw={view}"
        with suppress(ValueError):  # no workspace of this name exists
            workspace._internal_id = ws.Workspace.from_url(address)._internal_id
        workspace.save()
    except Exception as error:
        raise UserError(f"W&B did not take the workspace: {one_line(error)}.") from error
    return str(workspace.url)
