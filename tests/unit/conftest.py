"""What all unit tests share.

Property tests repeat the same examples; new ones: --hypothesis-profile=explore.
"""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def deterministic_as_it_was() -> Iterator[None]:
    """Lightning's trainers switch it for the whole process."""
    before = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(before)
