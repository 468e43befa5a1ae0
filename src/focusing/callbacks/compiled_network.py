"""Compile the network with ``torch.compile`` and measure the time that takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch

from focusing.callbacks.analysis import Resumable


class CompiledNetwork(Resumable):
    """Compiles the network of a run with ``torch.compile``, for ``trainer.compile=true``.

    Each batch shape is compiled separately. With dynamic shapes the code for a batch would depend
    on earlier batches, and a resumed run would not be bit-exact. The record gets ``compile``: the
    ``seconds`` of all sessions.

    Args:
        backend: backend of ``torch.compile``.
    """

    state = ("seconds",)

    def __init__(self, backend: str = "inductor") -> None:
        self.backend, self.seconds = backend, 0.0
        self._start = 0.0
        self._handler: Any = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Mark the network for compilation, which happens at its first calls."""
        from torch._dynamo.callback import callback_handler  # takes seconds to import

        torch.compiler.reset()  # earlier runs of this process count towards the recompile limit
        self._handler = callback_handler
        self._handler.register_start_callback(self._begin)
        self._handler.register_end_callback(self._end)
        pl_module.net.compile(backend=self.backend, dynamic=False)  # type: ignore[union-attr]

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Undo the compilation."""
        self._remove(pl_module)

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, *details: Any) -> None:
        """Undo the compilation."""
        self._remove(pl_module)

    def measurements(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """``measured.compile`` of the record."""
        return {"measured": {"compile": self.state_dict()}}

    def _begin(self, *_: Any) -> None:
        self._start = time.perf_counter()

    def _end(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self._start

    def _remove(self, module: Any) -> None:
        module.net._compiled_call_impl = None
        if self._handler is not None:
            self._handler.remove_start_callback(self._begin)
            self._handler.remove_end_callback(self._end)
            self._handler = None
