import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from focusing.data.sources import (
    Entry,
    File,
    MissingError,
    catalogue,
    find,
    obtain,
    replacement,
    tree_hash,
)
from tests.unit.data.server import Server


def entry(*choices: tuple[File, ...]) -> Entry:
    return Entry("thing", "The thing", ("thing", "other/place"), choices)


def archive(names: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, content in names.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_files_in_the_data_folder_come_first(tmp_path: Path, server: Server) -> None:
    wanted = entry((File("a", sha(b"a"), (server.url("/a"),)),))
    (tmp_path / "other/place").mkdir(parents=True)
    (tmp_path / "other/place/a").write_bytes(b"a")
    found = obtain(wanted, tmp_path)
    assert found.paths == (tmp_path / "other/place/a",)
    assert found.source == "official"
    assert not server.requests


def test_a_file_that_is_not_the_official_one_is_local(tmp_path: Path) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing/a").write_bytes(b"mine")
    found = find(entry((File("a", sha(b"a")),)), tmp_path)
    assert found is not None
    assert found.source == "local"


def test_what_is_not_published_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing/a").write_bytes(b"a")
    found = find(entry((File("a"),)), tmp_path)
    assert found is not None
    (tmp_path / "thing/a").unlink()  # reading it would fail
    assert found.source == "local"


def test_a_look_downloads_nothing(tmp_path: Path, server: Server) -> None:
    server.files["/a"] = b"a"
    with pytest.raises(MissingError, match="a not found in"):
        obtain(entry((File("a", sha(b"a"), (server.url("/a"),)),)), tmp_path, fetch=False)
    assert not server.requests


def test_any_complete_choice_will_do(tmp_path: Path) -> None:
    (tmp_path / "thing").mkdir()
    for name in ("a", "c"):
        (tmp_path / "thing" / name).touch()
    found = find(entry((File("a"), File("b")), (File("c"),)), tmp_path)
    assert found is not None
    assert [path.name for path in found.paths] == ["c"]


def test_what_is_missing_is_downloaded(tmp_path: Path, server: Server) -> None:
    server.files["/a"] = b"a"
    found = obtain(entry((File("a", sha(b"a"), (server.url("/a"),)),)), tmp_path)
    assert found.paths[0].read_bytes() == b"a"
    assert found.source == "official"
    obtain(found.entry, tmp_path)
    assert len(server.requests) == 1


def test_a_folder_comes_in_an_archive_that_does_not_stay(tmp_path: Path, server: Server) -> None:
    content = archive({"top/x.txt": b"x"})
    server.files["/t.tgz"] = content
    file = File("things", sha(content), (server.url("/t.tgz"),), "t.tgz", r"top/(.*\.txt)")
    found = obtain(entry((file,)), tmp_path)
    assert (found.paths[0] / "x.txt").read_bytes() == b"x"
    assert found.source == "official"
    assert [p.name for p in (tmp_path / "thing").iterdir() if p.name[0] != "."] == ["things"]


@pytest.mark.parametrize("name", ["x.txt", "y.txt"])
def test_an_unpacked_folder_is_official_as_long_as_nobody_changes_it(
    tmp_path: Path, server: Server, name: str
) -> None:
    content = archive({"top/x.txt": b"x"})
    server.files["/t.tgz"] = content
    file = File("things", sha(content), (server.url("/t.tgz"),), "t.tgz", r"top/(.*\.txt)")
    wanted = entry((file,))
    changed = obtain(wanted, tmp_path).paths[0] / name
    assert obtain(wanted, tmp_path).source == "official"
    changed.write_bytes(b"mine")
    assert obtain(wanted, tmp_path).source == "local"


def test_a_folder_of_another_content_is_kept_aside(tmp_path: Path, server: Server) -> None:
    server.files["/t.tgz"] = archive({"top/x.txt": b"x"})
    file = File("things", None, (server.url("/t.tgz"),), "t.tgz", r"top/(.*\.txt)", "0" * 64)
    with pytest.raises(MissingError, match=r"another content than expected.*things\.corrupt"):
        obtain(entry((file,)), tmp_path)
    assert [p.name for p in (tmp_path / "thing").iterdir() if p.name[0] != "."] == [
        "things.corrupt"
    ]


def test_an_archive_with_the_right_content_is_looked_for(tmp_path: Path, server: Server) -> None:
    (tmp_path / "right").mkdir()
    (tmp_path / "right/x.txt").write_bytes(b"right")
    server.files["/1.tgz"] = archive({"top/x.txt": b"wrong"})
    server.files["/2.tgz"] = b"no archive at all"
    server.files["/3.tgz"] = archive({"top/x.txt": b"right"})
    urls = tuple(server.url(f"/{number}.tgz") for number in (1, 2, 3))
    file = File("things", None, urls, "t.tgz", r"top/(.*\.txt)", tree_hash(tmp_path / "right"))
    found = obtain(entry((file,)), tmp_path)
    assert (found.paths[0] / "x.txt").read_bytes() == b"right"
    assert found.source == "official"
    shown = sorted(p.name for p in (tmp_path / "thing").iterdir() if p.name[0] != ".")
    assert shown == ["t.tgz.corrupt", "things", "things.corrupt"]


def test_without_a_hash_a_download_begins_again(tmp_path: Path, server: Server) -> None:
    content = archive({"top/x.txt": b"x"})
    server.files["/t.tgz"] = content
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing/t.tgz.part").write_bytes(content[:20])
    (tmp_path / "right").mkdir()
    (tmp_path / "right/x.txt").write_bytes(b"x")
    tree = tree_hash(tmp_path / "right")
    file = File("things", None, (server.url("/t.tgz"),), "t.tgz", r"top/(.*\.txt)", tree)
    obtain(entry((file,)), tmp_path)
    assert server.requests == [("/t.tgz", None)]


def test_offline_and_missing_is_one_sentence(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/x"
    files = (File("a", "0", (nowhere,)), File("b", "0", (nowhere,)))
    with pytest.raises(MissingError) as error:
        obtain(entry(files), tmp_path)
    assert str(error.value) == (
        f"The thing: a, b not found in {tmp_path / 'thing'} (127.0.0.1:9: Connection refused); "
        "put them there, or run `focusing data get thing` where there is a network."
    )


def test_a_file_without_an_address_has_to_be_brought(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no address to download from.; put it there.$"):
        obtain(catalogue()["clt60"], tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, server: Server) -> None:
    server.files["/a"] = b"a"
    (tmp_path / "thing").write_text("in the way")
    with pytest.raises(MissingError, match=r"thing: (File exists|Not a directory)"):
        obtain(entry((File("a", sha(b"a"), (server.url("/a"),)),)), tmp_path)


def test_the_hash_of_a_folder_is_what_the_shell_says(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a-b/c.txt"):
        (tmp_path / "f" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "f" / name).write_text(name)
    command = "find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum"
    shell = subprocess.run(command, shell=True, cwd=tmp_path / "f", capture_output=True, text=True)  # noqa: S602
    assert tree_hash(tmp_path / "f") == shell.stdout.split()[0]


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("mnist/train-labels-idx1-ubyte.gz", "run again to download it, or put a good copy there"),
        ("mnist/train-labels-idx1-ubyte", "put a good copy there"),
        ("mine/x.npz", "put a good copy there"),
        ("cats-dogs/train/cat.1.jpg", "put a good copy there"),
        (
            "lfw/lfw_funneled/Al/Al_0001.jpg",
            "put a good copy there, or remove lfw/lfw_funneled and run again to download it whole",
        ),
    ],
)
def test_a_download_is_promised_where_there_is_one(path: str, remedy: str) -> None:
    assert replacement(Path(path)) == remedy


def test_every_address_has_a_hash() -> None:
    for each in catalogue().values():
        for file in [file for choice in each.choices for file in choice if file.urls]:
            assert file.sha256 or file.tree, file.name
            assert all(url.startswith(("https://", "http://")) for url in file.urls)
            assert "{" not in "".join(file.urls)
