"""The same work in two processes at once."""

from collections.abc import Callable
from typing import Any

from tests.forkserver import CONTEXT


def run_twice(work: Callable[..., object], *arguments: Any) -> list[int | None]:
    """Exit codes of two processes, which begin at the same time: they have imported all before."""
    both = [CONTEXT.Process(target=work, args=arguments) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    return [each.exitcode for each in both]
