"""The tables of conf/recipe/: many small configs in one file, made known to Hydra.

A table has sections, a section has recipes: recipe ``lfw`` in section ``data`` is what Hydra loads
for ``recipe/data: lfw``, as it would a file recipe/data/lfw.yaml. A key may stand for several, as
in a shell: ``{mnist,clt}_simple``. Of two recipes with the same name the later completes the
earlier.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

BRACES = re.compile(r"\{([^}]*)\}")


@cache  # a sweep asks for them with every job
def store_recipes(folder: Path) -> None:
    """Make the recipes of all tables in a folder known to Hydra."""
    store = ConfigStore.instance()
    for section, recipes in read_recipes(folder).items():
        for name, recipe in recipes.items():
            store.store(group=f"recipe/{section}", name=name, node=recipe, package="_global_")


def read_recipes(folder: Path) -> dict[str, dict[str, Any]]:
    """The recipes of all tables in a folder, by section and name."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.yaml")):
        for section, entries in OmegaConf.load(path).items():
            recipes = found.setdefault(str(section), {})
            for key, recipe in entries.items():
                for name in expand_braces(str(key)):
                    recipes[name] = OmegaConf.merge(recipes.get(name, {}), recipe)
    return found


def expand_braces(key: str) -> list[str]:
    """All names a key stands for: ``{a,b}_c`` is a_c and b_c."""
    pieces = BRACES.split(key)  # text, list, text, list, ..., text
    options = [
        [each.strip() for each in piece.split(",")] if place % 2 else [piece]
        for place, piece in enumerate(pieces)
    ]
    return ["".join(parts) for parts in product(*options)]
