"""Options of a config have the types that a signature asks for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from focusing.callbacks import FocusTrajectory, Progress
from focusing.errors import UserError
from focusing.instantiate import check_arguments


def target(
    count: int = 1,
    rate: float = 1.0,
    name: str | None = None,
    widths: int | Sequence[int] = 1,
    bounds: tuple[float, float] = (0.0, 1.0),
    path: str | Path = ".",
    sigma: float | Sequence[float] | Tensor = 1.0,
    untyped=None,  # type: ignore[no-untyped-def] # noqa: ANN001
    anything: Any = None,
    **more: Any,
) -> None:
    """Takes options."""


@pytest.mark.parametrize(
    "options",
    [
        {"count": 3, "rate": 1, "name": None, "widths": [1, 2]},
        {"widths": 3, "bounds": [0, 0.5], "path": "x", "sigma": [0.1, 0.2]},
        {"untyped": "x", "anything": {"a": [1]}, "other": 1.5},
    ],
)
def test_what_fits(options: dict[str, Any]) -> None:
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
        ("bounds", [1], "has too few values"),
        ("sigma", True, "sigma=True should be a valid"),
    ],
)
def test_what_does_not(option: str, value: Any, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        check_arguments(target, {option: value})


def test_callbacks() -> None:
    with pytest.raises(UserError, match="every=1.5 should be a valid integer"):
        check_arguments(FocusTrajectory, {"every": 1.5})
    with pytest.raises(UserError, match="interval='abc' should be a valid number"):
        check_arguments(Progress, {"interval": "abc"})
    with pytest.raises(UserError, match="console='x' cannot be given in a config"):
        check_arguments(Progress, {"console": "x"})


def test_types_that_only_a_type_checker_knows_are_not_checked() -> None:
    def foreign(count: "Nowhere") -> None:  # type: ignore[name-defined] # noqa: F821
        """Has a type that does not exist."""

    check_arguments(foreign, {"count": "x"})
