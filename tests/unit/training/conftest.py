"""Train on the device under test; networks return to the CPU afterwards."""

import pytest
import torch

from tests.unit.training import fitting


@pytest.fixture(scope="session", autouse=True)
def accelerator(device: torch.device) -> None:
    fitting.OPTIONS["accelerator"] = {"cuda": "gpu"}.get(device.type, device.type)
    fitting.OPTIONS["devices"] = 1 if device.index is None else [device.index]
