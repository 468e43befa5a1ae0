"""Base classes of callbacks with state in checkpoints, and of those that measure a network."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytorch_lightning as pl

from focusing.nn import FocusedLinear
from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)


class Resumable(pl.Callback):
    """A callback that keeps some of its attributes in the checkpoints of a run.

    Attributes:
        state: names of these attributes, which are also the keys in a checkpoint.
    """

    state: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint."""
        return {name: copy.copy(getattr(self, name)) for name in self.state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        for name in self.state:
            setattr(self, name, copy.copy(state_dict[name]))


class Analysis(Resumable):
    """A callback that measures a trained network for the record.

    It uses the weights after the last epoch, whatever the protocol: choosing an epoch by its test
    accuracy and then measuring on the same test data would be biased. A run that is killed between
    its last epoch and its record is analysed when it resumes.

    An analysis must not change the network. If it fails, the run goes on with a warning, and the
    record holds ``{"error": ...}``.

    Attributes:
        name: key of the result in ``record["measured"]``.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self.result: dict[str, Any] | None = None

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Measure the network and return values for the record that JSON can hold.

        Args:
            module: the module, with the network and the data.
            folder: the run folder, for files of arrays.
        """
        raise NotImplementedError

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Run the analysis; Lightning calls this only if training was not aborted."""
        if not trainer.is_global_zero:
            return
        module: Any = pl_module
        try:
            result = self.analyse(module, Path(trainer.default_root_dir))
            json.dumps(result, allow_nan=False)  # fail here if the record could not hold it
        except Exception as error:  # keep the trained network, whatever went wrong
            log.warning("callbacks.%s failed, the run goes on without it: %r", self.name, error)
            result = {"error": repr(error)}
        self.result = result

    def measurements(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """``measured.<name>`` of the record; nothing before the end of training."""
        return {} if self.result is None else {"measured": {self.name: self.result}}


def focused_layers(module: pl.LightningModule) -> dict[str, FocusedLinear]:
    """Focused layers of the network by name, in order."""
    modules = getattr(module, "net", module).named_modules()
    return {name: layer for name, layer in modules if isinstance(layer, FocusedLinear)}


def sees_inputs(module: pl.LightningModule) -> bool:
    """Whether the first focused layer sees the inputs, not features or windows of them."""
    modules = getattr(module, "net", module).modules()
    first = next((one for one in modules if any(True for _ in one.parameters(recurse=False))), None)
    return isinstance(first, FocusedLinear)
