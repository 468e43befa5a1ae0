"""``focusing wandb dashboard``: a workspace that compares runs, and the same as code."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from focusing.errors import UserError
from focusing.reports.report import DEFAULT_FOLDERS, given_folders
from focusing.reports.upload.item import PROJECT, digest
from focusing.reports.upload.panels import Sections, sections
from focusing.reports.upload.push import (
    default_entity,
    place,
    require_server,
    sentence,
)
from focusing.results.collect import collect

CODE = '''\
"""A W&B workspace: python {file} makes it, or makes it anew. By focusing wandb dashboard."""

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from focusing.reports.upload.dashboard import save
from focusing.reports.upload.push import default_entity

workspace = ws.Workspace(
    entity={entity},
    project={project!r},
    name={name!r},
    sections=[
{sections}    ],
    # Runs that differ in their seed only are one line, in the group of their experiment.
    runset_settings=ws.RunsetSettings(groupby=[ws.Metric("Group"), ws.Config("config_hash")]),
)
print(save(workspace))
'''


def dashboard(options: argparse.Namespace) -> None:
    """Run the command with its arguments."""
    if options.folders or any(Path(each).is_dir() for each in DEFAULT_FOLDERS):
        shown = sections(collect(given_folders(options.folders)).runs)
    else:
        shown = sections()
    project = options.project or PROJECT
    where = place(options.entity, project)
    panels = sum(map(len, shown.values()))
    told = f"workspace {options.name!r} of {where} with {len(shown)} sections, {panels} panels"
    if options.save or options.dry_run:
        file = options.save or Path("dashboard.py")
        text = code(shown, options.entity, project, options.name, file.name)
        if options.dry_run:
            print(text, end="")
        else:
            file.write_text(text, encoding="utf-8")
            print(f"python {file} will make the {told}.")
        return
    if find_spec("wandb_workspaces") is None:
        raise UserError(
            "focusing wandb dashboard needs a package that is not installed: "
            "pip install 'focusing[wandb-workspaces]'"
        )
    require_server(f"the {told} was not made (--dry-run prints it as code)")
    entity = options.entity or default_entity()
    print(save(build(shown, entity, project, options.name)))


def build(shown: Sections, entity: str, project: str, name: str) -> Any:
    """The workspace, as an object of wandb-workspaces."""
    import wandb_workspaces.workspaces as ws

    return ws.Workspace(
        entity=entity,
        project=project,
        name=name,
        sections=[
            ws.Section(name=title, panels=[panel.build() for panel in panels], is_open=True)
            for title, panels in shown.items()
        ],
        runset_settings=ws.RunsetSettings(groupby=[ws.Metric("Group"), ws.Config("config_hash")]),
    )


def code(shown: Sections, entity: str | None, project: str, name: str, file: str) -> str:
    """The same as a Python program that makes it."""
    lines = []
    for title, panels in shown.items():
        lines += [f"        ws.Section(\n            name={title!r},\n            panels=["]
        lines += [f"                {panel.code()}," for panel in panels]
        lines += ["            ],\n            is_open=True,\n        ),"]
    return CODE.format(
        file=file,
        entity=repr(entity) if entity else "default_entity()",
        project=project,
        name=name,
        sections="".join(f"{line}\n" for line in lines),
    )


def save(workspace: Any) -> str:
    """Save a workspace; one of the same name is replaced, so that there are never two.

    Returns:
        Its address.
    """
    from wandb_workspaces.workspaces import Workspace

    view = digest(workspace.name)[:11]
    try:
        workspace._internal_name = f"nw-{view}-v"
        address = f"{workspace.url.partition('?')[0]}?nw={view}"
        try:
            earlier = Workspace.from_url(address)
        except ValueError:  # there is none
            pass
        else:
            workspace._internal_id = earlier._internal_id
        workspace.save()
    except Exception as error:
        raise UserError(f"W&B did not take the workspace: {sentence(error)}.") from error
    return str(workspace.url)
