"""Every test of the layer starts from the same seed, whatever ran before it."""

import os
from importlib.util import find_spec

import pytest
import torch

if find_spec("triton") and not torch.cuda.is_available():
    # Without a GPU, Triton's kernels run in its interpreter, which it must know while it loads.
    os.environ["TRITON_INTERPRET"] = "1"
    from focusing.nn.ops import gpu

    gpu.launch_once("cpu")
    del os.environ["TRITON_INTERPRET"]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
