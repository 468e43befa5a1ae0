"""Downloads are complete and verified; archives cannot write outside their folder."""

import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from focusing.data import download as module
from focusing.data.decoders import DamagedError
from focusing.data.download import DownloadError, download, extract
from tests.unit.data.makers import run_twice, tar, visible
from tests.unit.data.server import Server

CONTENT = os.urandom(3_000_000)
HASH = hashlib.sha256(CONTENT).hexdigest()
MEMBERS = r"top/(.*\.txt)"


@pytest.fixture
def target(tmp_path: Path, server: Server) -> Path:
    server.files["/file"] = CONTENT
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "file"


def test_an_interrupted_download_resumes(server: Server, target: Path) -> None:
    server.break_after = 1_000_000
    with pytest.raises(DownloadError, match="broke after 1000000 of 3000000 bytes"):
        download([server.url("/file")], target, HASH)
    assert visible(target.parent) == ["file.part"]
    server.break_after = None
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT
    assert server.requests[1:] == [("/file", "bytes=1000000-")]
    assert visible(target.parent) == ["file"]


@pytest.mark.parametrize(
    ("partial", "ranges"),
    [
        (CONTENT[:70_000], False),  # a server that cannot resume
        (bytes(10), True),  # the beginning of another file
        (bytes(4_000_000), True),
    ],
    ids=["no ranges", "other", "longer"],
)
def test_a_download_restarts_if_it_cannot_resume(
    server: Server, target: Path, partial: bytes, ranges: bool
) -> None:
    server.ranges = ranges
    target.with_name("file.part").write_bytes(partial)
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT


def test_a_complete_part_is_not_downloaded_again(server: Server, target: Path) -> None:
    target.with_name("file.part").write_bytes(CONTENT)
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT
    assert server.requests == [("/file", "bytes=3000000-")]


def test_mirrors_are_tried_in_order_and_the_error_lists_all_reasons(
    server: Server, target: Path
) -> None:
    urls = [server.url("/gone"), "http://127.0.0.1:9/file", server.url("/file")]
    download(urls, target, HASH)
    assert [path for path, _ in server.requests] == ["/gone", "/file"]
    target.unlink()
    with pytest.raises(DownloadError) as error:
        download([server.url("/gone"), "http://127.0.0.1:9/file", "ftp://x/y"], target, HASH)
    assert "Not Found" in str(error.value)
    assert "Connection refused" in str(error.value)
    assert "ftp://x/y is not a web address" in str(error.value)


def test_a_file_with_another_hash_is_renamed(server: Server, target: Path) -> None:
    server.files["/bad"] = b"not what it should be"
    with pytest.raises(DownloadError, match=r"sent another file, it is now file\.corrupt"):
        download([server.url("/bad")], target, HASH)
    assert visible(target.parent) == ["file.corrupt"]
    download([server.url("/bad"), server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT


def test_two_processes_download_a_file_once(server: Server, target: Path) -> None:
    server.delay = 0.3
    assert run_twice(download, [server.url("/file")], target, HASH) == [0, 0]
    assert target.read_bytes() == CONTENT
    assert len(server.requests) == 1


def pack(path: Path, kind: str, names: dict[str, bytes]) -> Path:
    if kind == "tar":
        path.write_bytes(tar(names))
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("top/sub/", "")
        for name, content in names.items():
            packed.writestr(name, content)
    return path


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_only_matching_members_are_extracted_and_none_outside(tmp_path: Path, kind: str) -> None:
    wanted = {"top/a.txt": b"a", "top/b/c.txt": b"c"}
    evil = ("top/../../evil.txt", "top//evil.txt", "top/..\\evil.txt", "top/evil.exe", "evil.txt")
    (tmp_path / "place").mkdir()
    archive = pack(tmp_path / "place/x", kind, {**dict.fromkeys(evil, b"evil"), **wanted})
    extract(archive, tmp_path / "place/out", MEMBERS)
    assert files(tmp_path / "place/out") == {"a.txt": b"a", "b/c.txt": b"c"}
    assert not list(tmp_path.rglob("*evil*"))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as archive:
        for name, target in (("top/door", str(tmp_path / "home")), ("top/link.txt", "/etc/passwd")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        info = tarfile.TarInfo("top/door/evil.txt")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"evil"))
    extract(tmp_path / "x.tgz", tmp_path / "out", MEMBERS)
    assert files(tmp_path / "out") == {"door/evil.txt": b"evil"}
    assert not list((tmp_path / "home").iterdir())


@pytest.mark.parametrize("cut", [0, 30, 1000])
def test_a_truncated_archive_leaves_nothing(tmp_path: Path, cut: int) -> None:
    names = {f"top/{i}.txt": os.urandom(5000) for i in range(9)}
    (tmp_path / "x.tgz").write_bytes(tar(names)[:cut])
    with pytest.raises(DamagedError):
        extract(tmp_path / "x.tgz", tmp_path / "out", MEMBERS)
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["x.tgz"]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_that_is_too_large_or_lacks_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(module, "MAX_EXTRACTED", 10_000)
    archive = pack(tmp_path / "x", kind, {"top/a.txt": bytes(20_000)})
    with pytest.raises(DamagedError, match="it would take 19.5 KiB or more"):
        extract(archive, tmp_path / "out", MEMBERS)
    with pytest.raises(DamagedError, match="none of the expected files"):
        extract(archive, tmp_path / "out", "other/(.*)")
    assert not (tmp_path / "out").exists()
