"""``focusing data list``, ``get`` and ``check``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from focusing.compose import data_dir, override_data
from focusing.data.catalogue import Entry, catalogue
from focusing.data.dataset import DataSet
from focusing.data.sample import settle
from focusing.data.sources import find, obtain
from focusing.errors import UserError
from focusing.instantiate import instantiate

VARIANTS = {"clt40": ("clt", "small"), "clt60": ("clt", "original")}
"""Files that ``data=clt`` reads if it is told to."""


def list_data(args: argparse.Namespace) -> None:
    """Print every data set and where it is, or how to get it."""
    folder = Path(data_dir())
    rows = [
        ("synthetic", "Informative columns beside noise", "made when needed"),
        ("clt", "Cluttered MNIST 60x60", "made from mnist when needed"),
        *((_choice(each.name), each.title, _where(each, folder)) for each in catalogue().values()),
    ]
    for choice, title, where in rows:
        print(f"{choice:26}{title:42}{where}")
    print(f"\nFiles are looked for in {folder}, which FOCUSING_DATA_DIR can change.")


def get_data(args: argparse.Namespace) -> None:
    """Download the files of data sets, those that are missing.

    Raises:
        UserError: if some cannot be had; the others are there then.
    """
    folder = Path(data_dir())
    entries = _entries(args.names)
    errors: dict[str, UserError] = {}
    for entry in entries:
        try:
            found = obtain(entry, folder)
        except UserError as error:
            errors[entry.name] = error
            continue
        print(f"{entry.name}: {', '.join(str(path) for path in found.paths)}")
    if len(entries) == len(errors) == 1:
        raise errors.popitem()[1]
    for each in errors.values():
        print(each, file=sys.stderr)
    if errors:
        raise UserError(f"{', '.join(errors)} could not be had, see above.")


def check_data(args: argparse.Namespace) -> None:
    """Read every data set that is there, or those that are named, and print what it holds.

    Raises:
        UserError: if one of them is damaged.
    """
    folder = Path(data_dir())
    entries = _entries(args.names) or list(catalogue().values())
    console = Console(soft_wrap=True, highlight=False)
    bad = []
    for entry in entries:
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


def read_data(name: str, folder: Path, changes: Sequence[str] = ()) -> DataSet:
    """A data set as its config file says.

    Args:
        name: as in the catalogue, or of a file in conf/data.
        folder: where its files are.
        changes: as on the command line, ``data.limit_train=100``.
    """
    group, variant = VARIANTS.get(name, (name, None))
    chosen = [f"data={group}", *([f"data.variant={variant}"] if variant else [])]
    options: dict[str, Any] = override_data({}, [*chosen, *changes])
    settle(options, folder, strict=False)
    if "split" in options:
        options |= {"data_dir": folder, "run_seed": 0}
    del options["name"]
    return instantiate(options, DataSet)


def describe(data: DataSet) -> str:
    """A data set in a line."""
    shape = "x".join(map(str, data.train.inputs.shape[1:]))
    kind = f"{data.classes} classes" if data.classes else "regression"
    sizes = f"{len(data.train.targets)} + {len(data.test.targets)}"
    return f"{sizes} samples of {shape}, {kind}, {data.source}, fingerprint {data.fingerprint}"


def entry_of(name: str) -> Entry:
    """A data set of the catalogue."""
    if name == "clt":
        name = "mnist"  # it is made of it
    try:
        return catalogue()[name]
    except KeyError:
        near = get_close_matches(name, catalogue(), n=1)
        hint = f", did you mean {near[0]}?" if near else "."
        raise UserError(
            f"{name} is not a data set with files{hint} There are {', '.join(catalogue())}."
        ) from None


def _entries(names: Sequence[str]) -> list[Entry]:
    """Each once: clt and mnist have the same files."""
    return list({entry.name: entry for entry in map(entry_of, names)}.values())


def _choice(name: str) -> str:
    group, variant = VARIANTS.get(name, (name, None))
    return f"{group} data.variant={variant}" if variant else group


def _where(entry: Entry, folder: Path) -> str:
    found = find(entry, folder)
    if found:
        return f"here, in {found.paths[0].parent.relative_to(folder)}"
    if any(all(file.urls for file in choice) for choice in entry.choices):
        return f"focusing data get {entry.name}"
    return f"put {entry.choices[0][0].name} into {entry.folders[0]}"
