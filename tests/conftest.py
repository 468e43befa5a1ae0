"""What all tests share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def not_deterministic() -> Iterator[None]:
    """Lightning's trainers switch it on for the whole process, also those of shared fixtures."""
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(False)
