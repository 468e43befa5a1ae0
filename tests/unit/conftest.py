"""What all unit tests share: repeated examples of property tests, and the default device.

Property tests repeat the same examples; new ones: --hypothesis-profile=explore.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("default")

ON_DEVICE = ("nn", "models")
"""Folders whose tests make layers, networks and inputs on the device of ``make test DEVICE=``."""

ON_CPU = (
    "test_banded",
    "test_cpu",
    "test_export",
    "test_fsdp",
    "test_on_data",
    "test_pretrained",
    "test_sparse",
)
"""Their files that stay on the CPU: compiled loops, ONNX Runtime, gloo, files of data."""


@pytest.fixture(autouse=True)
def on_device(device: torch.device, request: pytest.FixtureRequest) -> Iterator[None]:
    path = request.path
    moved = path.parent.name in ON_DEVICE and path.stem not in ON_CPU and device.type != "cpu"
    with device if moved else nullcontext():
        yield
