"""What a machine cannot do is refused before it is tried."""

import os
from pathlib import Path

import pytest

from focusing import validation as limits
from focusing.errors import UserError, printable
from focusing.validation import check_memory, check_regular, format_bytes, machine_memory


def test_more_memory_than_there_is() -> None:
    check_memory(machine_memory(), "this")
    with pytest.raises(UserError, match=r"data.x=9 would take .*iB .*: this machine has .*iB"):
        check_memory(machine_memory() + 1, "data.x=9")


def test_a_container_may_have_less(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(limits, "GROUP_LIMIT", limit)
    limit.write_text("max\n")
    whole = machine_memory.__wrapped__()
    limit.write_text("1000000\n")
    assert machine_memory.__wrapped__() == 1_000_000 < whole


def test_only_files_are_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a pipe or a device")):
        with pytest.raises(UserError, match=f"is {kind}"):
            check_regular(path)
    with pytest.raises(UserError, match="is a folder, not a file"):
        check_regular(tmp_path)
    check_regular(tmp_path / "nothing")
    (tmp_path / "file").touch()
    check_regular(tmp_path / "file")


@pytest.mark.parametrize(
    ("count", "expected"),
    [(5, "5 bytes"), (1024, "1 KiB"), (3 * 2**39, "1.5 TiB"), (2.0**90, "1.07e+09 EiB")],
)
def test_bytes_for_people(count: float, expected: str) -> None:
    assert format_bytes(count) == expected


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[2Jb\u202ec\x00\udcff") == r"a\x1b[2Jb\u202ec\x00\udcff"
    assert printable("two\nlines, äöü 你好") == "two\nlines, äöü 你好"
    assert str(UserError("it wants to run os\x1b]0;x\x07.system")) == (
        r"it wants to run os\x1b]0;x\x07.system"
    )
