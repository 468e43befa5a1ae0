"""Arrays beside a record that cannot be read: their figure is left out, the rest is drawn."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from focusing.errors import DamagedError
from focusing.reports.figures.chart import Chart, Runs
from focusing.reports.figures.gallery import Figures, all_figures, write_figures
from focusing.reports.figures.measurement_figures import shap_charts
from focusing.reports.figures.weight_figures import dead_input_charts
from focusing.reports.foci import first_and_last, read_foci
from focusing.reports.page.run_page import foci_of
from focusing.reports.page.site import write_page
from focusing.results.collect import collect
from tests.command_line import archive
from tests.unit.reports.records import add_run, foci_arrays

PUBLISHED = Path(__file__).parents[3] / "results"
Arrays = dict[str, Any]


def packed(arrays: Arrays) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def bomb() -> bytes:
    """A small file whose array would fill the memory."""
    header, content = io.BytesIO(), io.BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": (2**45,)}
    np.lib.format.write_array_header_1_0(header, about)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("hidden1/mu.npy", header.getvalue())
    return content.getvalue()


WHOLE = packed(foci_arrays(epochs=5))
DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "foreign": b"no arrays",
    "cut off": WHOLE[: len(WHOLE) // 2],
    "a single array": WHOLE[WHOLE.index(b"\x93NUMPY") :][:500],
    "no layers but objects": packed({"hidden1/mu": np.array([None])}),
    "a bomb": bomb(),
    "flipped": WHOLE[:300] + bytes(byte ^ 255 for byte in WHOLE[300:400]) + WHOLE[400:],
}
CHANGES: dict[str, Callable[[Arrays], object]] = {
    "lacks sigma": lambda a: a.pop("hidden1/sigma"),
    "lacks tau": lambda a: a.pop("hidden1/tau"),
    "lacks epoch": lambda a: a.pop("epoch"),
    "fit together: sigma": lambda a: a.update({"hidden1/sigma": np.ones((5, 2, 1))}),
    "fit together: epoch": lambda a: a.update(epoch=np.arange(3)),
    "fit together: weight_last": lambda a: a.update({"hidden1/weight_last": np.ones((3, 4))}),
    "another kind or shape in mu": lambda a: a.update({"hidden1/mu": np.ones((5, 3))}),
    "another kind or shape in focus": lambda a: a.update({"hidden1/focus": np.array(3)}),
    "unknown focus": lambda a: a.update({"hidden1/focus": np.array("\x1b[2J")}),
    "not finite in tau": lambda a: a.update({"hidden1/tau": np.full((20, 1), np.nan)}),
    "not above 0": lambda a: a.update({"hidden1/sigma": np.zeros((5, 3, 1))}),
    "neurons that are not there": lambda a: a.update({"hidden1/shown": np.array([0, 1, 9])}),
    "impossible name": lambda a: a.update({f"../up/{key.partition('/')[2]}": value
                                           for key, value in list(a.items()) if "/" in key}),
    "empty array": lambda a: a.update({key: value[:0] for key, value in a.items()
                                       if key in ("epoch", "hidden1/mu", "hidden1/sigma")}),
}  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_what_is_no_file_of_arrays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "focus.npz").write_bytes(content)
    with pytest.raises(DamagedError, match=r"focus\.npz"):
        read_foci(tmp_path, {})
    assert foci_of(tmp_path / "focus.npz", None) == []


@pytest.mark.parametrize("reason", CHANGES)
def test_what_does_not_fit(tmp_path: Path, reason: str) -> None:
    arrays = foci_arrays(epochs=5)
    CHANGES[reason](arrays)
    (tmp_path / "focus.npz").write_bytes(packed(arrays))
    with pytest.raises(DamagedError, match=reason):
        read_foci(tmp_path, {})
    foci_of(tmp_path / "focus.npz", None)


def test_only_what_is_asked_for_is_checked(tmp_path: Path) -> None:
    arrays = foci_arrays(epochs=5)
    sigma = arrays.pop("hidden1/sigma")
    (tmp_path / "focus.npz").write_bytes(packed(arrays))
    assert first_and_last(tmp_path, "mu")["hidden1"][0].shape == (3, 1)
    assert first_and_last(tmp_path, "sigma") == {}
    arrays["hidden1/mu"][0] = np.nan  # never finite
    (tmp_path / "focus.npz").write_bytes(packed({**arrays, "hidden1/sigma": sigma}))
    assert read_foci(tmp_path, {}) == []


def test_the_figure_is_left_out_and_the_rest_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foci = {"hidden1": {"moved": 0.1, "sigma_first": 0.1, "sigma_last": 0.2, "widened": 1.0}}
    for name in ("learning_to_focus", "sides"):
        folder = add_run(tmp_path / "runs", name, "synthetic", "focus_s", 0, [0.5], focus=foci)
        (folder / "focus.npz").write_bytes(WHOLE if name == "sides" else b"")
    collection = collect([tmp_path / "runs"])
    figures = all_figures(collection)
    [(left_out, reason)] = figures.damaged.items()
    assert left_out.startswith("learning_to_focus/")
    assert "is damaged (EOFError" in reason
    assert any(chart.name.startswith("foci_sides") for chart in figures.charts)
    write_figures(collection, tmp_path / "out")
    folder = tmp_path / "out" / "figures"
    assert left_out in (folder / "all.md").read_text()
    index = json.loads((folder / "index.json").read_text())
    names = {name for entry in index["figures"] for name in entry["files"]}
    assert names | {"index.json", "all.md"} == {path.name for path in folder.iterdir()}
    with Image.open(folder / "film_sides_full_text.gif") as film:
        assert film.n_frames == 5  # the foci move
    write_page(collection, tmp_path / "out")
    assert left_out in (tmp_path / "out" / "index.html").read_text()
    archive([str(tmp_path / "runs"), "--out", str(tmp_path / "archive")])
    assert "Left out: " in capsys.readouterr().err
    assert len(list((tmp_path / "archive").rglob("focus.npz"))) == 1


@pytest.mark.parametrize(
    ("experiment", "file", "charts"),
    [
        ("explain", "explanation.npz", shap_charts),
        ("redundancy", "dead_inputs.npz", dead_input_charts),
    ],
)
def test_other_arrays(tmp_path: Path, experiment: str, file: str, charts: Any) -> None:
    shutil.copytree(PUBLISHED / experiment, tmp_path / experiment)
    collection = collect([tmp_path])
    assert list(charts(Runs(collection)))
    for path in tmp_path.rglob(file):
        with np.load(path) as stored:
            arrays = {name: stored[name][..., :2] for name in stored.files}
        path.write_bytes(packed(arrays))
    runs = Runs(collection)
    assert list(charts(runs)) == []
    assert runs.damaged


def test_numbers_that_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw() -> Any:
        raise ValueError("Axis limits cannot be NaN or Inf")

    chart = Chart("a", "A", "b", (), draw)
    monkeypatch.setattr("focusing.reports.figures.gallery.all_figures", lambda _: Figures([chart]))
    add_run(tmp_path / "runs", "e", "dna", "dense", 0, [0.5])
    files = write_figures(collect([tmp_path / "runs"]), tmp_path)
    assert [path.name for path in files] == ["index.json", "all.md"]
    assert "Axis limits" in (tmp_path / "figures" / "all.md").read_text()
