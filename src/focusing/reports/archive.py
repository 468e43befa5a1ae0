"""``focusing archive``: records without checkpoints, small enough to publish beside a paper."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from focusing.errors import DamagedError, UserError, printable
from focusing.reports.figures.chart import median_run
from focusing.reports.foci import FILE as FOCI
from focusing.reports.foci import read_layers
from focusing.reports.names import SMALL_SIZES
from focusing.reports.report import nothing, search_folders
from focusing.reports.settings import editions_of
from focusing.results.arrays import read_arrays
from focusing.results.collect import Collection, Run, collect, record_files
from focusing.results.frame import group_by
from focusing.results.store import ARCHIVE, atomic_write, safe_join, write_archive

TIMES, FEW_TIMES = 25, 5
"""At which foci are kept: the first, the last, and others evenly between them; few of many foci."""
NEURONS, FEW_NEURONS = 8, 5
"""Of which weights are kept; few of many foci."""
MANY = 100
"""Foci of a network with many."""
SMALL = 2**13
"""Bytes of arrays that are kept of every run; larger ones of a typical run per setting only, and
none of experiments at a small size."""


def main(options: argparse.Namespace) -> None:
    """Run the command with its arguments."""
    folders = search_folders(options.folders or ["outputs"])
    if not any(record_files(folders)):
        raise UserError(nothing(folders))
    collection = collect([*folders, *([options.out] if options.out.is_dir() else [])])
    write_archives(collection, options.out)
    files = (path for path in options.out.rglob("*") if path.suffix in (".xz", ".npz"))
    size = sum(path.stat().st_size for path in files)
    runs = len(collection.runs) + len(collection.failed)
    print(f"{runs} records: {options.out} ({size / 2**20:.1f} MiB)")


def write_archives(collection: Collection, out: Path) -> None:
    """Write ``<experiment>/records.jsonl.xz``, and beside it the arrays that figures are made from.

    Args:
        collection: what to keep, what is in ``out`` already included.
        out: the folder.
    """
    every = [*collection.runs, *collection.failed]
    for experiment, runs in group_by(every, lambda run: run.experiment).items():
        folder = safe_join(out, experiment)
        if all(run.file == (folder / ARCHIVE).absolute() for run in runs):
            continue  # published as it is
        names = _folders(runs, folder)
        write_archive(folder, (("/".join(names[run]), run.record()) for run in runs))
        done = [run for run in runs if run.status == "done"]
        plain = editions_of(run for run in done if run.trial is None)
        large = [edition for edition in plain if edition.size not in SMALL_SIZES]
        shown = {median_run(setting.runs) for edition in large for setting in edition.settings}
        for run in runs:
            _write_arrays(run, safe_join(folder, *names[run]), whole=run in shown)


def _folders(runs: Sequence[Run], folder: Path) -> dict[Run, tuple[str, str]]:
    """The names of runs in the archive of a folder: what is there keeps the name it has.

    Others are named as a run names its folder; runs on other data get another name.
    """
    names: dict[Run, tuple[str, str]] = {}
    for run in runs:
        if run.file == (folder / ARCHIVE).absolute():
            parent, name = run.path.relative_to(run.file.parent).parts
            names[run] = parent, name
    for run in runs:
        if run not in names:
            parent, name = run.config_hash, f"seed={run.seed}"
            taken = (parent, name) in names.values()
            names[run] = parent, f"{name}-{run.fingerprint}" if taken else name
    return names


def _write_arrays(run: Run, folder: Path, *, whole: bool) -> None:
    """Thin arrays of a run; half as many bits are more than a figure shows."""
    for path in sorted(run.path.glob("*.npz")):
        if path.parent == folder or run.trial is not None:  # of trials no figure shows any
            continue
        try:
            if path.name == FOCI:
                read_layers(path)
            arrays = read_arrays(path)
        except DamagedError as error:
            print(f"Left out: {printable(str(error))}", file=sys.stderr)
            continue
        if path.name == FOCI:
            arrays = _thin(arrays)
        half = {
            name: array.astype(np.float16) if _may_be_rounded(name, array) else array
            for name, array in arrays.items()
        }
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **half)
        if whole or content.getbuffer().nbytes <= SMALL:
            folder.mkdir(parents=True, exist_ok=True)
            atomic_write(folder / path.name, content.getbuffer(), sync=False)


def _may_be_rounded(name: str, array: Any) -> bool:
    return array.dtype == np.float32 and not name.endswith("/tau")  # inputs lie close together


def _thin(arrays: dict[str, Any]) -> dict[str, Any]:
    """Some epochs of the foci, and the weights of some neurons."""
    foci = sum(array.shape[1] for name, array in arrays.items() if name.endswith("/mu"))
    most_times, most_neurons = (FEW_TIMES, FEW_NEURONS) if foci > MANY else (TIMES, NEURONS)
    times = _evenly(len(arrays["epoch"]), most_times)
    thin = {}
    for name, array in arrays.items():
        layer, _, quantity = name.rpartition("/")
        if quantity in ("epoch", "mu", "sigma"):
            array = array[times]
        elif quantity in ("shown", "weight_first", "weight_last"):
            array = array[_evenly(len(arrays[f"{layer}/shown"]), most_neurons)]
        thin[name] = array
    return thin


def _evenly(count: int, most: int) -> Any:
    return np.unique(np.linspace(0, count - 1, most).round().astype(int))
