"""A config in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.tree import Tree


def config_tree(config: Mapping[str, Any]) -> Tree:
    """The config as a tree, one option a line."""
    tree = Tree("[bold]config[/bold]", guide_style="dim")
    _grow(tree, config)
    return tree


def _grow(tree: Tree, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if isinstance(value, Mapping) and value:
            _grow(tree.add(f"[bold]{escape(str(name))}[/bold]"), value)
        else:
            tree.add(f"{escape(str(name))}: {escape(str(value))}")
