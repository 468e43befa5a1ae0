"""Options and fixtures of all tests: the device and the dtypes to test.

``make test DEVICE=cuda`` runs the tests of the layer, the networks, training, stacks and inference
on a GPU. A device that does not exist is an error; no test is skipped.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch reads it at first use

if find_spec("triton") and not torch.cuda.is_available():
    # Without a GPU, Triton interprets its kernels. It reads the variable when it is imported, so
    # this must happen before torch imports it in a test.
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
    """The device for networks and data."""
    return torch.device(pytestconfig.getoption("--device"))


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest, device: torch.device) -> torch.dtype:
    """The dtypes to test; Apple's GPUs have no float64."""
    if device.type == "mps" and request.param == torch.float64:
        pytest.skip("mps has no float64")
    return request.param


@pytest.fixture
def strays_fail() -> Iterator[None]:
    """Make tensors without an explicit device fail, even on a machine without a GPU."""
    with torch.device("meta"):
        yield


@pytest.fixture(autouse=True)
def not_deterministic() -> Iterator[None]:
    """Undo what Lightning's trainers switch on for the whole process."""
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(False)
