"""Every test of the layer starts from the same seed, whatever ran before it."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
