"""What is measured on a trained network, once training is over."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytorch_lightning as pl

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)


class Analysis(pl.Callback):
    """Looks at a trained network and has something for the record.

    It sees the weights after the last epoch, whatever epoch the protocol chooses: a choice among
    epochs by test accuracy, followed by a look at the same test data, would choose twice. A run
    that was killed between its last epoch and its record is analysed when it resumes.

    An analysis that fails costs a warning, not the run: the record then holds ``{"error": ...}``.
    It must leave the network as it is, and works on a copy if it has to change something.

    Attributes:
        name: key of the finding in ``record["measured"]``.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self.found: dict[str, Any] | None = None

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Plain values for the record.

        Args:
            module: with the network and the data.
            folder: of the run, for arrays; name the file in the finding.
        """
        raise NotImplementedError

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Analyse, if training came to its end."""
        if not trainer.is_global_zero:
            return
        module: Any = pl_module
        try:
            found = self.analyse(module, Path(trainer.default_root_dir))
            json.dumps(found, allow_nan=False)  # what the record cannot hold must fail here
        except Exception as error:  # whatever it is, the trained network matters more
            log.warning("callbacks.%s failed, the run goes on without it: %r", self.name, error)
            found = {"error": repr(error)}
        self.found = found

    def measured(self) -> dict[str, Any]:
        """For ``record["measured"]``; empty before the end of training."""
        return {} if self.found is None else {self.name: self.found}
