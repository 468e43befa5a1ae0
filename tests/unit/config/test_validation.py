"""Options checked against signatures, and limits of the machine."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Le
from torch import Tensor

from focusing import validation
from focusing.callbacks import Progress
from focusing.errors import UserError, printable
from focusing.instantiate import check_arguments
from focusing.validation import check_memory, check_regular, format_bytes, machine_memory


def target(
    count: int = 1,
    rate: float = 1.0,
    name: str | None = None,
    widths: int | Sequence[int] = 1,
    bounds: tuple[float, float] = (0.0, 1.0),
    path: str | Path = ".",
    sigma: float | Sequence[float] | Tensor = 1.0,
    grams: Annotated[int, Ge(1), Le(3)] = 1,
    limit: Annotated[int, Ge(1)] | None = None,
    kind: Literal["normal", "uniform"] = "normal",
    untyped=None,  # type: ignore[no-untyped-def] # noqa: ANN001
    anything: Any = None,
    **more: Any,
) -> None:
    """Takes options."""


class TestArguments:
    @pytest.mark.parametrize(
        "options",
        [
            {"count": 3, "rate": 1, "name": None, "widths": [1, 2], "limit": None},
            {"widths": 3, "bounds": [0, 0.5], "path": "x", "sigma": [0.1, 0.2], "grams": 3},
            {"untyped": "x", "anything": {"a": [1]}, "other": 1.5, "kind": "uniform"},
        ],
    )
    def test_valid_options_pass(self, options: dict[str, Any]) -> None:
        check_arguments(target, options)

    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [
            ("count", 1.5, "count=1.5 should be a valid integer"),
            ("count", True, "count=True should be a valid integer"),
            ("count", "1", "count='1' should be a valid integer"),
            ("rate", "abc", "rate='abc' should be a valid number"),
            ("rate", None, "rate=None should be a valid number"),
            ("name", 5, "name=5 should be a valid string"),
            ("widths", ["a"], r"widths=\['a'\] should be a valid integer"),
            ("bounds", [1], r"bounds=\[1\] has too few values"),
            ("sigma", True, "sigma=True should be a valid"),
            ("grams", 4, "grams=4 must be at most 3"),
            ("limit", 0, "limit=0 must be at least 1"),
            ("kind", "pink", "kind=pink is not one of normal, uniform"),
        ],
    )
    def test_invalid_options_are_rejected(self, option: str, value: Any, expected: str) -> None:
        with pytest.raises(UserError, match=f"^data.{expected}"):
            check_arguments(target, {option: value}, "data.")

    def test_objects_cannot_be_given_in_a_config(self) -> None:
        with pytest.raises(UserError, match="console='x' cannot be given in a config"):
            check_arguments(Progress, {"console": "x"})

    def test_unresolvable_annotations_are_not_checked(self) -> None:
        def foreign(count: "Nowhere") -> None:  # type: ignore[name-defined] # noqa: F821
            """Has a type that does not exist."""

        check_arguments(foreign, {"count": "x"})


class TestMachine:
    def test_memory_limit(self) -> None:
        check_memory(machine_memory(), "this")
        with pytest.raises(UserError, match=r"data.x=9 would take .*iB .*: this machine has .*iB"):
            check_memory(machine_memory() + 1, "data.x=9")

    def test_cgroup_memory_limit(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        limit = tmp_path / "memory.max"
        monkeypatch.setattr(validation, "CGROUP_MEMORY_LIMIT", limit)
        limit.write_text("max\n")
        whole = machine_memory.__wrapped__()
        limit.write_text("1000000\n")
        assert machine_memory.__wrapped__() == 1_000_000 < whole

    def test_check_regular(self, tmp_path: Path) -> None:
        pipe, zero = tmp_path / "pipe", Path("/dev/zero")
        os.mkfifo(pipe)
        for path, kind in ((pipe, "a pipe"), (zero, "a pipe or a dev"), (tmp_path, "a folder, ")):
            with pytest.raises(UserError, match=f"is {kind}"):
                check_regular(path)
        check_regular(tmp_path / "nothing")
        (tmp_path / "file").touch()
        check_regular(tmp_path / "file")

    def test_format_bytes(self) -> None:
        counts = (5, 1024, 3 * 2**39, 2.0**90)
        expected = ["5 bytes", "1 KiB", "1.5 TiB", "1.07e+09 EiB"]
        assert [format_bytes(count) for count in counts] == expected


def test_printable_escapes_control_characters() -> None:
    assert printable("a\x1b[2Jb\u202ec\x00\udcff") == r"a\x1b[2Jb\u202ec\x00\udcff"
    assert printable("two\nlines, äöü 你好") == "two\nlines, äöü 你好"
    assert printable("abcdefgh", 6) == "abc..."
    assert str(UserError("it runs os\x1b]0;x\x07.system")) == r"it runs os\x1b]0;x\x07.system"
