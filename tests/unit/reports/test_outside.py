"""Records and report folders of others name nothing outside the folder that is written."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from focusing.errors import UserError
from focusing.reports import archive, run_figures
from focusing.reports.figures import gallery
from focusing.reports.page import site
from focusing.reports.report_cache import STATE_FILE, save_state
from focusing.reports.tables.files import write_tables
from focusing.results.collect import Collection, collect
from focusing.training.wandb_run import _new_run_id, run_id
from tests.command_line import archive as archive_command
from tests.unit.reports.records import add_foci, add_run

NOTHING = Collection(())


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file beside the folder ``out``, which nobody may touch."""
    (tmp_path / "out").mkdir()
    path = tmp_path / "kept"
    path.write_text("precious")
    return path


def test_a_report_deletes_nothing_elsewhere(kept: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "old").write_text("x")
    names = ["../kept", str(kept), "..", ".", "a/../../kept", "old"]
    (out / STATE_FILE).write_text(json.dumps({"state": "", "files": names}))
    save_state(out, "new", [])
    assert not (out / "old").exists()
    assert kept.read_text() == "precious"


@pytest.mark.parametrize("folder", ["tables", "figures", "runs"])
def test_a_report_does_not_follow_a_folder_elsewhere(tmp_path: Path, folder: str) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for path in (out, elsewhere):
        path.mkdir()
    (out / folder).symlink_to(elsewhere)
    write = {"tables": write_tables, "figures": gallery.write_figures, "runs": site.write_page}
    with pytest.raises(UserError, match="is a link that leads out of"):
        write[folder](NOTHING, out)
    assert not list(elsewhere.iterdir())


def test_a_report_does_not_follow_files_elsewhere(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "all_figures", lambda _: gallery.Figures([]))
    out = tmp_path / "out"
    for name in ("tables/all.md", "figures/all.md", "figures/.all.md.part"):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).symlink_to(kept)
    write_tables(NOTHING, out)
    gallery.write_figures(NOTHING, out)
    assert kept.read_text() == "precious"


@pytest.mark.parametrize("name", ["../../E", "/{}/E", "..", "a/../../../E"])
@pytest.mark.parametrize("key", ["experiment", "config_hash", "fingerprint"])
def test_an_archive_is_written_nowhere_else(tmp_path: Path, key: str, name: str) -> None:
    here, name = tmp_path / "a" / "b", name.format(tmp_path)
    for place in ("one", "two"):  # of two runs that are alike the second is named after its data
        folder = add_run(here / "outputs" / place, "e", "dna", "dense", 0, [0.5], fingerprint=place)
        add_foci(folder, epochs=2)
    record = json.loads((folder / "result.json").read_text())
    (record["data"] if key == "fingerprint" else record)[key] = name
    (folder / "result.json").write_text(json.dumps(record))
    before = {*tmp_path.rglob("*"), here / "results"}
    with suppress(UserError):
        archive_command([str(here / "outputs"), "--out", str(here / "results")])
    made = set(tmp_path.rglob("*")) - before
    assert all(here / "results" in path.parents for path in made)


def test_an_archive_does_not_follow_a_folder_elsewhere(tmp_path: Path) -> None:
    add_run(tmp_path / "outputs", "e", "dna", "dense", 0, [0.5])
    for folder in ("results", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "results" / "e").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a link that leads out of"):
        archive.write_archives(collect([tmp_path / "outputs"]), tmp_path / "results")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_figures_of_a_run_stay_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_run(tmp_path / "outputs", "e", "dna", "focus_s", 0, [0.5])
    add_foci(folder, epochs=2)
    with np.load(folder / "focus.npz") as stored:
        arrays = {name.replace("hidden1", "../../../../x/y"): stored[name] for name in stored}
    np.savez(folder / "focus.npz", allow_pickle=False, **arrays)
    monkeypatch.setattr(run_figures, "layer_figures", lambda foci: {"foci": Figure((1, 1))})
    paths = run_figures.draw_run(folder)
    assert len(paths) == 2  # of the series: a layer of that name is not drawn
    assert {path.resolve().parent for path in paths} == {folder / "figures"}


@pytest.mark.parametrize(
    ("text", "known"), [("abc123\n", "abc123"), ("../../x", None), ("/x", None), ("", None)]
)
def test_the_id_of_a_wandb_run_is_a_name(tmp_path: Path, text: str, known: str | None) -> None:
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "run_id").write_text(text)
    assert run_id(tmp_path) == known


def test_the_id_of_a_wandb_run_is_written_here(kept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "wandb"
    folder.mkdir()
    (folder / "run_id").symlink_to(kept)
    kept.write_text("two\nlines")
    assert run_id(tmp_path / "out") is None
    assert _new_run_id(tmp_path / "out") == run_id(tmp_path / "out")
    assert kept.read_text() == "two\nlines"
