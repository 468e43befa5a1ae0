import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from focusing.data.decoders import DamagedError
from focusing.data.download import extract

MEMBERS = r"top/(.*\.txt)"


def tar(path: Path, names: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, content in names.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_only_wanted_files_are_taken(tmp_path: Path) -> None:
    content = {"top/a.txt": b"a", "top/b/c.txt": b"c", "top/d.exe": b"d", "e.txt": b"e"}
    archive = tar(tmp_path / "x.tgz", content)
    extract(archive, tmp_path / "out", MEMBERS)
    assert files(tmp_path / "out") == {"a.txt": b"a", "b/c.txt": b"c"}


def test_a_zip_file_too(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("top/a.txt", "a")
        archive.writestr("top/sub/", "")
    extract(tmp_path / "x.zip", tmp_path / "out", MEMBERS)
    assert files(tmp_path / "out") == {"a.txt": b"a"}


@pytest.mark.parametrize("name", ["top/../../evil.txt", "top//evil.txt", "top/..\\evil.txt"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_nothing_escapes_from_the_folder(tmp_path: Path, name: str, kind: str) -> None:
    content = {name: b"evil", "top/good.txt": b"good"}
    (tmp_path / "place").mkdir()
    archive = tmp_path / "place" / "x"
    if kind == "tar":
        tar(archive, content)
    else:
        with zipfile.ZipFile(archive, "w") as packed:
            for each, text in content.items():
                packed.writestr(each, text)
    extract(archive, tmp_path / "place" / "out", MEMBERS)
    assert files(tmp_path / "place" / "out") == {"good.txt": b"good"}
    assert not list(tmp_path.rglob("*evil*"))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    links = {"top/door": str(tmp_path / "home"), "top/link.txt": "/etc/passwd"}
    archive = tar(tmp_path / "x.tgz", {"top/door/evil.txt": b"evil"}, links)
    extract(archive, tmp_path / "out", MEMBERS)
    assert files(tmp_path / "out") == {"door/evil.txt": b"evil"}
    assert not list((tmp_path / "home").iterdir())


@pytest.mark.parametrize("cut", [0, 30, 1000])
def test_a_truncated_archive_leaves_nothing(tmp_path: Path, cut: int) -> None:
    archive = tar(tmp_path / "x.tgz", {f"top/{i}.txt": os.urandom(5000) for i in range(9)})
    archive.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(DamagedError):
        extract(archive, tmp_path / "out", MEMBERS)
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["x.tgz"]


def test_an_archive_without_the_files_is_refused(tmp_path: Path) -> None:
    archive = tar(tmp_path / "x.tgz", {"other.txt": b""})
    with pytest.raises(DamagedError, match="none of the files"):
        extract(archive, tmp_path / "out", MEMBERS)
