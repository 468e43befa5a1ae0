import hashlib
import os
from pathlib import Path

import pytest

from focusing.data.download import DownloadError, download
from tests.unit.data.processes import run_twice
from tests.unit.data.server import Server

CONTENT = os.urandom(3_000_000)
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def target(tmp_path: Path, server: Server) -> Path:
    server.files["/file"] = CONTENT
    return tmp_path / "folder" / "file"


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name[0] != ".")


def test_a_file_arrives_whole_and_alone(server: Server, target: Path) -> None:
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT
    assert visible(target.parent) == ["file"]


def test_an_interrupted_download_goes_on_where_it_stopped(server: Server, target: Path) -> None:
    server.break_after = 1_000_000
    with pytest.raises(DownloadError, match="broke after 1000000 of 3000000 bytes"):
        download([server.url("/file")], target, HASH)
    assert visible(target.parent) == ["file.part"]
    server.break_after = None
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT
    assert server.requests[1:] == [("/file", "bytes=1000000-")]
    assert visible(target.parent) == ["file"]


def test_a_killed_download_goes_on_where_it_stopped(server: Server, target: Path) -> None:
    target.parent.mkdir()
    target.with_name("file.part").write_bytes(CONTENT[:70_000])
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT
    assert server.requests == [("/file", "bytes=70000-")]


def test_a_server_without_ranges_sends_it_all_again(server: Server, target: Path) -> None:
    server.ranges = False
    target.parent.mkdir()
    target.with_name("file.part").write_bytes(CONTENT[:70_000])
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("size", [10, 4_000_000])
def test_the_beginning_of_another_file_is_thrown_away(
    server: Server, target: Path, size: int
) -> None:
    target.parent.mkdir()
    target.with_name("file.part").write_bytes(bytes(size))
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT


def test_a_part_that_was_complete_is_not_fetched_again(server: Server, target: Path) -> None:
    target.parent.mkdir()
    target.with_name("file.part").write_bytes(CONTENT)
    download([server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_mirrors_are_tried_in_order(server: Server, target: Path) -> None:
    urls = [server.url("/gone"), "http://127.0.0.1:9/file", server.url("/file")]
    download(urls, target, HASH)
    assert [path for path, _ in server.requests] == ["/gone", "/file"]


def test_another_hash_is_refused_and_kept_aside(server: Server, target: Path) -> None:
    server.files["/bad"] = b"not what it should be"
    with pytest.raises(DownloadError, match=r"sent another file, it is now file\.corrupt"):
        download([server.url("/bad")], target, HASH)
    assert visible(target.parent) == ["file.corrupt"]
    download([server.url("/bad"), server.url("/file")], target, HASH)
    assert target.read_bytes() == CONTENT


def test_all_reasons_are_told(server: Server, target: Path) -> None:
    with pytest.raises(DownloadError) as error:
        download([server.url("/gone"), "http://127.0.0.1:9/file", "ftp://x/y"], target, HASH)
    assert "Not Found" in str(error.value)
    assert "Connection refused" in str(error.value)
    assert "no web address" in str(error.value)


def test_two_processes_fetch_a_file_once(server: Server, target: Path) -> None:
    server.delay = 0.3
    assert run_twice(download, [server.url("/file")], target, HASH) == [0, 0]
    assert target.read_bytes() == CONTENT
    assert len(server.requests) == 1
