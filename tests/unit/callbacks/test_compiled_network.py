"""A compiled network trains like the plain one, resumes bit-exactly and records its time."""

import signal
from pathlib import Path

import pytest
import torch

from focusing.callbacks import ClipFoci, CompiledNetwork, StuckNeurons
from focusing.reports.terminal import _cost
from focusing.results.record_schema import check_record
from focusing.training.module import FocusingModule
from focusing.training.resume import Interrupted
from tests.unit.reports.records import SMALLEST
from tests.unit.training.fitting import Signal, data, net, optim, same_weights, trained


class SignalAtStep(Signal):
    """Counts optimizer steps: a hook of the network would be compiled with it."""

    def on_fit_start(self, trainer: object, pl_module: FocusingModule) -> None:
        pl_module.optimizer.register_step_post_hook(self._count)

    def on_train_epoch_end(self, *_: object) -> None:
        pass


def run(folder: Path, backend: str, *more: Signal, samples: int = 100) -> FocusingModule:
    return trained(
        folder,
        network=net(input_dropout=0.2),
        dataset=data(n_samples=samples),
        settings=optim(momentum=0.9),
        callbacks=[ClipFoci(), StuckNeurons(), CompiledNetwork(backend), *more],
        epochs=2,
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # of torch
@pytest.mark.parametrize(
    ("backend", "stop"),
    [("aot_eager", 7), pytest.param("inductor", 3, marks=pytest.mark.slow)],
)
def test_resuming_is_bit_exact(tmp_path: Path, backend: str, stop: int) -> None:
    """The resumed run compiles the last, smaller batch first."""
    whole = run(tmp_path / "whole", backend)
    with pytest.raises(Interrupted):
        run(tmp_path / "stopped", backend, SignalAtStep(signal.SIGTERM, stop))
    resumed = run(tmp_path / "stopped", backend)
    assert same_weights(whole, resumed)
    assert whole.series == resumed.series
    plain = trained(
        tmp_path / "plain",
        network=net(input_dropout=0.2),
        settings=optim(momentum=0.9),
        callbacks=[ClipFoci()],
        epochs=2,
    )
    if backend == "aot_eager":  # draws dropout like eager torch
        for one, two in zip(whole.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


def test_compile_time_is_recorded_and_hooks_are_removed(tmp_path: Path) -> None:
    module = run(tmp_path, "aot_eager")
    [callback] = [one for one in module.trainer.callbacks if isinstance(one, CompiledNetwork)]
    measured = callback.measurements({})["measured"]
    check_record({"schema": 1, **SMALLEST, "measured": measured})
    assert measured["compile"]["seconds"] > 0
    assert "compiled in" in _cost({"measured": measured})
    assert module.net._compiled_call_impl is None
    from torch._dynamo.callback import callback_handler

    assert callback._begin not in callback_handler.start_callbacks
    again = CompiledNetwork()
    again.load_state_dict(callback.state_dict())
    assert again.seconds == callback.seconds


def test_the_network_is_really_compiled(tmp_path: Path) -> None:
    torch._dynamo.utils.counters.clear()
    run(tmp_path, "aot_eager")
    frames = torch._dynamo.utils.counters["frames"]
    assert frames["ok"] == frames["total"] > 0
    assert not torch._dynamo.utils.counters["graph_break"]
