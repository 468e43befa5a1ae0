"""Files of data sets: found in the data folder, or downloaded."""

import hashlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from focusing.data.sources import (
    Entry,
    File,
    MissingError,
    catalogue,
    find,
    obtain,
    tree_hash,
)
from tests.unit.data.makers import tar, visible
from tests.unit.data.server import Server

ARCHIVE = tar({"top/x.txt": b"x"})


def entry(*choices: tuple[File, ...]) -> Entry:
    return Entry("thing", "The thing", ("thing", "other/place"), choices)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def wanted(server: Server) -> Entry:
    """A data set with a file that the server has."""
    server.files["/a"] = b"a"
    return entry((File("a", sha(b"a"), (server.url("/a"),)),))


@pytest.fixture
def folder(server: Server) -> File:
    """A folder in an archive that the server has."""
    server.files["/t.tgz"] = ARCHIVE
    return File("things", sha(ARCHIVE), (server.url("/t.tgz"),), "t.tgz", r"top/(.*\.txt)")


@pytest.fixture
def tree(tmp_path: Path) -> str:
    """The hash of the folder's content."""
    (tmp_path / "right").mkdir()
    (tmp_path / "right/x.txt").write_bytes(b"x")
    return tree_hash(tmp_path / "right")


def test_files_in_the_data_folder_come_first(tmp_path: Path, server: Server, wanted: Entry) -> None:
    (tmp_path / "other/place").mkdir(parents=True)
    (tmp_path / "other/place/a").write_bytes(b"a")
    files = obtain(wanted, tmp_path)
    assert files.paths == (tmp_path / "other/place/a",)
    assert files.source == "official"
    (tmp_path / "other/place/a").write_bytes(b"mine")
    assert obtain(wanted, tmp_path).source == "local"
    assert not server.requests


def test_find_returns_a_complete_choice(tmp_path: Path) -> None:
    (tmp_path / "thing").mkdir()
    for name in ("a", "c"):
        (tmp_path / "thing" / name).touch()
    files = find(entry((File("a"), File("b")), (File("c"),)), tmp_path)
    assert files is not None
    assert [path.name for path in files.paths] == ["c"]


def test_missing_files_are_downloaded_once_and_only_if_allowed(
    tmp_path: Path, server: Server, wanted: Entry
) -> None:
    with pytest.raises(MissingError, match="a not found in"):
        obtain(wanted, tmp_path, fetch=False)
    assert not server.requests
    for _ in range(2):
        files = obtain(wanted, tmp_path)
        assert files.paths[0].read_bytes() == b"a"
        assert files.source == "official"
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["x.txt", "y.txt"])
def test_an_extracted_folder_is_official_until_it_changes(
    tmp_path: Path, folder: File, name: str
) -> None:
    files = obtain(entry((folder,)), tmp_path)
    assert (files.paths[0] / "x.txt").read_bytes() == b"x"
    assert visible(tmp_path / "thing") == ["things"]  # the archive is removed
    assert obtain(entry((folder,)), tmp_path).source == "official"
    (files.paths[0] / name).write_bytes(b"mine")
    assert obtain(entry((folder,)), tmp_path).source == "local"


def test_a_folder_with_unexpected_content_is_renamed(tmp_path: Path, folder: File) -> None:
    other = replace(folder, sha256=None, tree="0" * 64)
    with pytest.raises(MissingError, match=r"does not have the expected content.*things\.corrupt"):
        obtain(entry((other,)), tmp_path)
    assert visible(tmp_path / "thing") == ["things.corrupt"]


def test_mirrors_are_tried_until_the_content_matches(
    tmp_path: Path, server: Server, folder: File, tree: str
) -> None:
    server.files["/1.tgz"] = tar({"top/x.txt": b"wrong"})
    server.files["/2.tgz"] = b"no archive at all"
    urls = (server.url("/1.tgz"), server.url("/2.tgz"), *folder.urls)
    files = obtain(entry((replace(folder, sha256=None, urls=urls, tree=tree),)), tmp_path)
    assert (files.paths[0] / "x.txt").read_bytes() == b"x"
    assert files.source == "official"
    assert visible(tmp_path / "thing") == ["t.tgz.corrupt", "things", "things.corrupt"]


def test_without_a_hash_a_download_starts_again(
    tmp_path: Path, server: Server, folder: File, tree: str
) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing/t.tgz.part").write_bytes(ARCHIVE[:20])
    obtain(entry((replace(folder, sha256=None, tree=tree),)), tmp_path)
    assert server.requests == [("/t.tgz", None)]


def test_the_error_for_missing_files_names_the_remedy(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/x"
    files = (File("a", "0", (nowhere,)), File("b", "0", (nowhere,)))
    with pytest.raises(MissingError) as error:
        obtain(entry(files), tmp_path)
    assert str(error.value) == (
        f"The thing: a, b not found in {tmp_path / 'thing'} (127.0.0.1:9: Connection refused); "
        "put them there, or run `focusing data get thing` where there is a network."
    )


def test_the_error_for_a_file_without_a_url(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no address to download from.; put it there.$"):
        obtain(catalogue()["clt60"], tmp_path)


def test_the_error_for_an_unwritable_folder_names_it(tmp_path: Path, wanted: Entry) -> None:
    (tmp_path / "thing").write_text("in the way")
    with pytest.raises(MissingError, match=r"thing: (File exists|Not a directory)"):
        obtain(wanted, tmp_path)


def test_tree_hash_matches_the_shell(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a-b/c.txt"):
        (tmp_path / "f" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "f" / name).write_text(name)
    command = "find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum"
    shell = subprocess.run(command, shell=True, cwd=tmp_path / "f", capture_output=True, text=True)  # noqa: S602
    assert tree_hash(tmp_path / "f") == shell.stdout.split()[0]


def test_every_url_has_a_hash() -> None:
    for known in catalogue().values():
        for file in [file for choice in known.choices for file in choice if file.urls]:
            assert file.sha256 or file.tree, file.name
            assert all(url.startswith(("https://", "http://")) for url in file.urls)
            assert "{" not in "".join(file.urls)
