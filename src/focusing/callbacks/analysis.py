"""The bases of callbacks that go on after a kill, and that measure a trained network."""

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
    """Keeps some of its attributes in the checkpoints, so that a resumed run goes on with them.

    Attributes:
        state: their names, which are also the keys in a checkpoint.
    """

    state: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {name: copy.copy(getattr(self, name)) for name in self.state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the checkpoint was written."""
        for name in self.state:
            setattr(self, name, copy.copy(state_dict[name]))


class Analysis(Resumable):
    """Measures a trained network for the record.

    It sees the weights after the last epoch, whatever epoch the protocol chooses: to choose an
    epoch by test accuracy and then measure on the same test data would choose twice. A run that was
    killed between its last epoch and its record is analysed when it resumes.

    An analysis that fails costs a warning, not the run: the record then holds ``{"error": ...}``.
    It must leave the network as it is, and works on a copy if it has to change something.

    Attributes:
        name: key of the result in ``record["measured"]``.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self.result: dict[str, Any] | None = None

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Plain values for the record.

        Args:
            module: with the network and the data.
            folder: of the run, for arrays; name the file in the result.
        """
        raise NotImplementedError

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Analyse, if training came to its end."""
        if not trainer.is_global_zero:
            return
        module: Any = pl_module
        try:
            result = self.analyse(module, Path(trainer.default_root_dir))
            json.dumps(result, allow_nan=False)  # what the record cannot hold must fail here
        except Exception as error:  # whatever it is, the trained network matters more
            log.warning("callbacks.%s failed, the run goes on without it: %r", self.name, error)
            result = {"error": repr(error)}
        self.result = result

    def measurements(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """What it adds to the record; nothing before the end of training."""
        return {} if self.result is None else {"measured": {self.name: self.result}}


def focused_layers(module: pl.LightningModule) -> dict[str, FocusedLinear]:
    """The focused layers of the network by name, in order."""
    modules = getattr(module, "net", module).named_modules()
    return {name: layer for name, layer in modules if isinstance(layer, FocusedLinear)}
