"""``focusing archive``: packs records and thinned arrays into small files for publication."""

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
from focusing.reports.report import no_runs_message, search_folders
from focusing.reports.settings import editions_of
from focusing.results.arrays import evenly_spaced, read_arrays
from focusing.results.collect import Collection, Run, collect, record_files
from focusing.results.frame import group_by
from focusing.results.store import ARCHIVE, atomic_write, safe_join, write_archive

MANY_FOCI = 100
"""A network with more foci is thinned more."""
MAX_TIMES, MAX_TIMES_OF_MANY = 25, 5
"""Epochs whose foci are kept: the first, the last, and others evenly spaced."""
MAX_NEURONS, MAX_NEURONS_OF_MANY = 8, 5
"""Neurons whose weights are kept."""
SMALL_BYTES = 2**13
"""Arrays up to this size are kept of every run. Larger ones are kept only of the median run of a
setting, and not at all of small sizes."""


def main(options: argparse.Namespace) -> None:
    """Run ``focusing archive`` with its arguments."""
    folders = search_folders(options.folders or ["outputs"])
    if not any(record_files(folders)):
        raise UserError(no_runs_message(folders))
    collection = collect([*folders, *([options.out] if options.out.is_dir() else [])])
    archived = options.out.absolute()
    for file, reason in collection.unreadable:
        if file.name == ARCHIVE and file.is_relative_to(archived):  # would be lost
            raise UserError(
                f"{printable(str(file))} has records that cannot be read ({reason}): restore it, "
                "move it elsewhere, or update focusing if a newer version wrote it."
            )
    if warning := collection.warning():
        print(warning, file=sys.stderr)
    if not collection.runs and not collection.failed:
        raise UserError(no_runs_message(folders))
    write_archives(collection, options.out)
    files = (path for path in options.out.rglob("*") if path.suffix in (".xz", ".npz"))
    size = sum(path.stat().st_size for path in files)
    runs = len(collection.runs) + len(collection.failed)
    print(f"{runs} records: {options.out} ({size / 2**20:.1f} MiB)")


def write_archives(collection: Collection, out: Path) -> None:
    """Write ``<experiment>/records.jsonl.xz`` below ``out``, and the arrays that figures need.

    ``collection`` includes the runs that are already in ``out``.
    """
    every = [*collection.runs, *collection.failed]
    for experiment, runs in group_by(every, lambda run: run.experiment).items():
        folder = safe_join(out, experiment)
        if all(run.file == (folder / ARCHIVE).absolute() for run in runs):
            continue  # nothing new
        names = _folders(runs, folder)
        write_archive(folder, (("/".join(names[run]), run.record()) for run in runs))
        done = [run for run in runs if run.status == "done"]
        plain = editions_of(run for run in done if run.trial is None)
        large = [edition for edition in plain if edition.size not in SMALL_SIZES]
        settings = [setting.runs for edition in large for setting in edition.settings]
        files = {path.name for run in runs for path in run.path.glob("*.npz")}
        shown = {(median_run(replicates, file), file) for replicates in settings for file in files}
        for run in runs:
            of_run = {file for file in files if (run, file) in shown}
            _write_arrays(run, safe_join(folder, *names[run]), of_run)


def _folders(runs: Sequence[Run], folder: Path) -> dict[Run, tuple[str, str]]:
    """Names of runs in an archive: archived runs keep theirs, new ones get config hash and seed.

    If that name is taken, by a run on other data, the fingerprint of the data is added.
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


def _write_arrays(run: Run, folder: Path, shown: set[str]) -> None:
    """Write the arrays of a run, thinned and in half precision, which is enough for figures.

    Arrays that figures no longer show are removed, or else every new seed would add some.
    """
    for path in sorted(run.path.glob("*.npz")):
        if run.trial is not None:  # no figure shows trials
            continue
        archived = folder / path.name
        try:
            content = path.read_bytes() if path == archived else _thinned(path)
        except DamagedError as error:
            print(f"Left out: {printable(str(error))}", file=sys.stderr)
            continue
        if path.name not in shown and len(content) > SMALL_BYTES:
            archived.unlink(missing_ok=True)
        elif path != archived:
            folder.mkdir(parents=True, exist_ok=True)
            atomic_write(archived, content, sync=False)


def _thinned(path: Path) -> bytes:
    """The content of an ``.npz`` file for an archive."""
    arrays = read_arrays(path)
    if path.name == FOCI:
        read_layers(path)  # raises if they are damaged
        arrays = _thin(arrays)
    # Positions (tau) stay in full precision: inputs lie close together.
    rounded = {
        name: array.astype(np.float16)
        for name, array in arrays.items()
        if array.dtype == np.float32 and not name.endswith("/tau")
    }
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **(arrays | rounded))
    return content.getvalue()


def _thin(arrays: dict[str, Any]) -> dict[str, Any]:
    """Keep some epochs of the foci, and the weights of some neurons."""
    foci = sum(array.shape[1] for name, array in arrays.items() if name.endswith("/mu"))
    many = foci > MANY_FOCI
    times = evenly_spaced(len(arrays["epoch"]), MAX_TIMES_OF_MANY if many else MAX_TIMES)
    max_neurons = MAX_NEURONS_OF_MANY if many else MAX_NEURONS
    thin = {}
    for name, array in arrays.items():
        layer, _, quantity = name.rpartition("/")
        if quantity in ("epoch", "mu", "sigma"):
            array = array[times]
        elif quantity in ("shown", "weight_first", "weight_last"):
            array = array[evenly_spaced(len(arrays[f"{layer}/shown"]), max_neurons)]
        thin[name] = array
    return thin
