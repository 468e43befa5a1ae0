"""Names from files of others name nothing outside the folder that they are for."""

from pathlib import Path
from typing import Any

import pytest

from focusing.errors import UserError
from focusing.results.store import atomic_write, inside, remove
from focusing.validation import is_name

NO_NAMES = ["", ".", "..", "/", "/etc/passwd", "../x", "a/b", "a\\b", "a\0b", "a\nb", "x" * 256]
NO_NAMES += ["\ud800", None, 3, ["a"], {"a": 1}]  # type: ignore[list-item]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_names_nothing(tmp_path: Path, name: Any) -> None:
    assert not is_name(name)
    with pytest.raises(UserError, match="cannot be the name of a file"):
        inside(tmp_path, "fine", name)
    remove(tmp_path, [name])


@pytest.mark.parametrize("name", ["a", ".a", "a..b", "ä b", "seed=3", "x" * 255])
def test_names(tmp_path: Path, name: str) -> None:
    assert inside(tmp_path, name, "b") == tmp_path / name / "b"


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "link").symlink_to(other)
    (folder / "near").symlink_to(folder / "real")
    assert inside(folder, "near", "a") == folder / "near" / "a"
    with pytest.raises(UserError, match=r"link is a link that leads out of .*folder: remove it"):
        inside(folder, "link")
    with pytest.raises(UserError, match="leads out"):
        inside(folder, "link", "a")


def test_removes_files_and_links_but_no_folders(tmp_path: Path) -> None:
    folder, kept = tmp_path / "folder", tmp_path / "kept"
    (folder / "below").mkdir(parents=True)
    for path in (folder / "old", kept):
        path.write_text("x")
    (folder / "link").symlink_to(kept)
    remove(folder, ["old", "link", "below", "never there", "../kept", str(kept)])
    assert [path.name for path in folder.iterdir()] == ["below"]
    assert kept.read_text() == "x"


@pytest.mark.parametrize("link", ["new", ".new.part"])
def test_writes_no_file_that_a_link_leads_to(tmp_path: Path, link: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text("x")
    (tmp_path / link).symlink_to(kept)
    atomic_write(tmp_path / "new", b"y")
    assert (tmp_path / "new").read_text() == "y"
    assert not (tmp_path / "new").is_symlink()
    assert kept.read_text() == "x"
