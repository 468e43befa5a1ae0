"""Figures of windows, and of foci by domain."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from focusing.reports.figures.chart import Runs
from focusing.reports.figures.dynamic_figures import domain_charts, window_charts
from focusing.reports.page.run_page import windows_of
from focusing.results.collect import collect
from focusing.results.frame import measurements
from focusing.window_drawing import in_plane, read_windows, windows_figure
from tests.unit.reports.records import add_foci, add_run, charts_of

DOMAINS = {"inputs": 8, "domains": {"image": [0, 4], "audio": [4, 8]}}


def test_foci_by_domain(tmp_path: Path) -> None:
    focus = {"hidden1": {"moved": 0.1, "in_image_first": 0.5, "in_image_last": 0.25}}
    run_dir = add_run(
        tmp_path, "e", "multi_domain", "focus_s", 0, [0.5], val=[0.5], sizes=DOMAINS, focus=focus,
        options={"data.noise": "image"},
    )  # fmt: skip
    mu = np.array([[0.1, 0.4, 0.6, 0.9], [0.1, 0.6, 0.7, 1.0]])[..., None]
    add_foci(run_dir, mu, np.linspace(0, 1, 8)[:, None])
    features = {"hidden": {"moved": 0.1}}  # not of the inputs
    run_dir = add_run(
        tmp_path, "e", "multi_domain", "cnn_focus", 0, [0.5], val=[0.5], sizes=DOMAINS,
        focus=features,
    )  # fmt: skip
    add_foci(run_dir, mu, np.linspace(0, 1, 8)[:, None])
    collection = collect([tmp_path])
    [chart] = charts_of(domain_charts, collection)
    shares = [(row["domain"], row["foci_first"], row["foci_last"]) for row in chart.rows]
    assert shares == [("image", 0.5, 0.25), ("audio", 0.5, 0.75)]
    figure = chart.draw()
    assert isinstance(figure, Figure)
    words = {text.get_text() for text in figure.axes[0].texts}
    assert words == {"noise: 50 → 25 %", "audio: 50 → 75 %"}
    [pixels] = [run for run in collection.runs if run.model == "focus_s"]
    assert measurements(pixels)["foci in image at last (%)"] == 25


def test_windows_as_figure_and_film(tmp_path: Path) -> None:
    run_dir = add_run(
        tmp_path, "e", "clt", "dynamic_2d", 0, [0.5], measured={"windows": {"spread": 0.1}}
    )
    arrays = {
        "images": np.zeros((2, 6, 6, 1), np.uint8),
        "epoch": np.array([0, 0.5, 1.0]),
        "centre": np.full((3, 2, 1, 2), 0.5, np.float32),
        "extent": np.full((3, 2, 1, 2), 0.5, np.float32),
    }
    np.savez(run_dir / "windows.npz", **arrays)
    [picture] = charts_of(
        window_charts, collect([tmp_path])
    )  # a film is of what beats dense layers
    add_run(tmp_path, "e", "clt", "dense", 0, [0.4])
    picture, film = charts_of(window_charts, collect([tmp_path]))
    assert isinstance(picture.draw(), Figure)
    content = film.draw()
    assert isinstance(content, bytes)
    assert content.startswith(b"GIF8")
    assert {row["epoch"] for row in film.rows} == {0.0, 1.0}
    np.savez(run_dir / "windows.npz", **arrays | {"images": np.zeros((2, 6, 6, 6, 1), np.uint8)})
    assert read_windows(run_dir) is None  # volumes are not drawn
    (run_dir / "windows.npz").write_bytes(b"no")
    runs = Runs(collect([tmp_path]))
    assert (list(window_charts(runs)), len(runs.damaged)) == ([], 1)


def windows_in(axes: int, *shape: int) -> dict[str, np.ndarray]:
    """Two samples, and a window from a quarter to three quarters of each axis."""
    values = np.full((1, 2, 1, axes), 0.5, np.float32)
    images = np.arange(2 * np.prod(shape), dtype=np.uint8).reshape(2, *shape)
    return {"images": images, "epoch": np.array([1.0]), "centre": values, "extent": values}


def test_two_channels_are_drawn_as_their_mean() -> None:
    arrays = windows_in(2, 5, 5, 2)
    drawn = windows_figure(arrays).axes[0].images[0].get_array()
    np.testing.assert_array_equal(drawn, arrays["images"][0].mean(-1).round())


def test_a_sequence_is_drawn_as_rows_of_channels(tmp_path: Path) -> None:
    for channels in (1, 13):
        arrays = windows_in(1, 41, channels)
        assert in_plane(arrays)
        panel = windows_figure(arrays).axes[0]
        drawn = np.asarray(panel.images[0].get_array())
        thickness = len(drawn) // channels
        assert thickness >= 2
        np.testing.assert_array_equal(drawn[::thickness], arrays["images"][0].T)
        [frame] = panel.patches
        assert (frame.get_x(), frame.get_width()) == (10, 20)
        assert (frame.get_y(), frame.get_height()) == (0, len(drawn) - 1)
        np.savez(tmp_path / "windows.npz", **arrays)
        view = windows_of(tmp_path)
        assert view is not None
        assert view["size"] == [len(drawn), 41]
        assert view["boxes"][0][0] == [[0.0, 0.25, 1.0, 0.5]]
