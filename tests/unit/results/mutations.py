"""Ways in which what was read from a file can differ from what was written."""

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

NESTED: Any = []
for _ in range(60):
    NESTED = [NESTED]
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 3, 1.5, 1e30, 10**30, math.nan, math.inf, "", "x", "../../up", "\ud800",
    "\x1b[2J", "n" * 230, [], [1], ["x"], [[0.5, 1.5]], {}, {"x": 1}, {"error": 1}, NESTED,
)  # fmt: skip
GONE = object()
MOST_ITEMS = 2
"""Of a list: the others are like them."""


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values in a container are, the container itself first."""
    yield above
    if isinstance(value, dict):
        for key, below in value.items():
            yield from paths(below, (*above, key))
    elif isinstance(value, list):
        for place, below in enumerate(value[:MOST_ITEMS]):
            yield from paths(below, (*above, place))


def mutations(value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Path and outcome of each way to take a value out, or to put something strange in its place.

    The outcomes share what was not changed.
    """
    for path in paths(value):
        for strange in (GONE, *STRANGE):
            if path or strange is not GONE:
                yield path, _changed(value, path, strange)


def _changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    if not path:
        return deepcopy(to)
    copy = list(value) if isinstance(value, list) else dict(value)
    if len(path) == 1 and to is GONE:
        del copy[path[0]]
    else:
        copy[path[0]] = _changed(value[path[0]], path[1:], to)
    return copy
