"""The commands ``focusing data list``, ``get`` and ``check``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from focusing.config import data_dir
from focusing.data.sources import Entry, catalogue, find, obtain
from focusing.errors import UserError, suggest

if TYPE_CHECKING:
    from focusing.data.dataset import DataSet

VARIANTS = {"clt40": ("clt", "small"), "clt60": ("clt", "original")}
"""Catalogue entries that are variants of a data set: the data set and the variant."""


def list_data(args: argparse.Namespace) -> None:
    """Print all data sets and where they are, or how to get them."""
    folder = Path(data_dir())
    rows = [
        ("synthetic", "Informative columns beside noise", "made when needed"),
        ("clt", "Cluttered MNIST 60x60", "made from mnist when needed"),
        ("shifted", "Shifted MNIST 60x60", "made from mnist when needed"),
        ("multi_domain", "Handwritten and spoken digits", "made from mnist and fsdd when needed"),
    ]
    for entry in catalogue().values():
        group, variant = VARIANTS.get(entry.name, (entry.name, None))
        choice = f"{group} data.variant={variant}" if variant else group
        rows.append((choice, entry.title, _where(entry, folder)))
    for choice, title, where in rows:
        print(f"{choice:26}{title:42}{where}")
    print(f"\nFiles are looked for in {folder}, which FOCUSING_DATA_DIR can change.")


def get_data(args: argparse.Namespace) -> None:
    """Download the missing files of data sets.

    Raises:
        UserError: if some cannot be downloaded, after the others have been.
    """
    folder = Path(data_dir())
    entries = _entries(args.names)
    errors: dict[str, UserError] = {}
    for entry in entries:
        try:
            files = obtain(entry, folder)
        except UserError as error:
            errors[entry.name] = error
            continue
        print(f"{entry.name}: {', '.join(str(path) for path in files.paths)}")
    if len(entries) == len(errors) == 1:
        raise errors.popitem()[1]
    for reason in errors.values():
        print(reason, file=sys.stderr)
    if errors:
        raise UserError(f"{', '.join(errors)} could not be downloaded, see above.")


def check_data(args: argparse.Namespace) -> None:
    """Read all data sets whose files are there, or the named ones, and print a line about each.

    Raises:
        UserError: if one is damaged, or a named one is missing.
    """
    folder = Path(data_dir())
    console = Console(soft_wrap=True, highlight=False)
    bad = []
    for entry in _entries(args.names) or catalogue().values():
        if find(entry, folder) is None:
            console.print(f"{entry.name:9} missing")
            bad += [entry.name] if args.names else []
            continue
        try:
            data = read_data(entry.name, folder)
        except UserError as error:
            bad.append(entry.name)
            console.print(f"{entry.name:9} [bold red]{escape(str(error))}[/]")
            continue
        console.print(f"{entry.name:9} {describe(data)}")
    if bad:
        raise UserError(f"{', '.join(bad)} cannot be read, see above.")


def read_data(name: str, folder: Path, overrides: Sequence[str] = ()) -> DataSet:
    """Make or read a data set with the options in conf/data, and overrides of them."""
    from focusing.compose import override_data  # torch and Hydra take seconds
    from focusing.data.dataset import DataSet
    from focusing.data.image_sets import resolve_missing
    from focusing.instantiate import instantiate

    group, variant = VARIANTS.get(name, (name, None))
    chosen = [f"data={group}", *([f"data.variant={variant}"] if variant else [])]
    options: dict[str, Any] = override_data({}, [*chosen, *overrides])
    resolve_missing(options, folder, strict=False)
    if "split" in options:
        options |= {"data_dir": folder, "run_seed": 0}
    del options["name"]
    return instantiate(options, DataSet)


def describe(data: DataSet) -> str:
    """Describe a data set in one line."""
    shape = "x".join(map(str, data.train.inputs.shape[1:]))
    kind = f"{data.classes} classes" if data.classes else "regression"
    sizes = f"{len(data.train.targets)} + {len(data.test.targets)}"
    return f"{sizes} samples of {shape}, {kind}, {data.source}, fingerprint {data.fingerprint}"


def _entries(names: Sequence[str]) -> list[Entry]:
    """Catalogue entries of data sets, without duplicates: clt and shifted are made from mnist."""
    entries = {}
    for name in ("mnist" if name in ("clt", "shifted") else name for name in names):
        if name not in catalogue():
            raise UserError(f"{name} is not a data set with files{suggest(name, catalogue())}")
        entries[name] = catalogue()[name]
    return list(entries.values())


def _where(entry: Entry, folder: Path) -> str:
    files = find(entry, folder)
    if files:
        return f"here, in {files.paths[0].parent.relative_to(folder)}"
    if entry.downloads:
        return f"focusing data get {entry.name}"
    return f"put {entry.choices[0][0].name} into {entry.folders[0]}"
