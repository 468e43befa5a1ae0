"""What all tests share: the device that they run on.

``make test DEVICE=cuda`` runs the tests of the layer, the networks, training, stacks and inference
on a GPU. A device that is not there is an error, never a test that is skipped.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch reads it once, at its first use

if find_spec("triton") and not torch.cuda.is_available():
    # Without a GPU, Triton's kernels run in its interpreter, which it must know while
    # it loads: before any test makes torch load it.
    os.environ["TRITON_INTERPRET"] = "1"
    from focusing.nn.ops import gpu

    gpu.launch_once("cpu")
    del os.environ["TRITON_INTERPRET"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where tests run: cpu, cuda, cuda:1, mps")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--device")
    try:
        torch.ones(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise pytest.UsageError(f"--device={name} cannot be used here: {reason}") from None


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> torch.device:
    """The device to test on; fixtures and tests put networks and data there."""
    return torch.device(pytestconfig.getoption("--device"))


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest, device: torch.device) -> torch.dtype:
    """The types to test in; Apple's GPUs have no float64."""
    if device.type == "mps" and request.param == torch.float64:
        pytest.skip("mps has no float64")
    return request.param


@pytest.fixture
def strays_fail() -> Iterator[None]:
    """What is made without naming a device has no values: so a machine without a GPU finds it."""
    with torch.device("meta"):
        yield


@pytest.fixture(autouse=True)
def not_deterministic() -> Iterator[None]:
    """Lightning's trainers switch it on for the whole process, also those of shared fixtures."""
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(False)
