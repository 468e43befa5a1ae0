"""Report the scores of a run to the search that it is a trial of, and stop when told to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytorch_lightning as pl

from focusing.errors import PrunedError
from focusing.results.store import STUDY_SUFFIX, open_study

if TYPE_CHECKING:
    import optuna


class SearchTrial(pl.Callback):
    """Reports the score of each epoch to an Optuna study, and stops the run if it is pruned.

    The score is that of the validation data if there is any, else of the test data.

    Args:
        study: file of the study, created by the search.
        number: number of the trial.
        after_trials: number of first trials that are never pruned.
        after_epochs: number of first epochs in which no trial is pruned.
    """

    def __init__(self, study: str, number: int, after_trials: int, after_epochs: int) -> None:
        self.path, self.number = Path(study), number
        if self.path.suffix != STUDY_SUFFIX or not self.path.is_file():
            raise ValueError(f"study={study!r} is not the study of a search.")
        self._limits = {"after_trials": after_trials, "after_epochs": after_epochs}
        self._trial: optuna.Trial | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Open the study and find the trial."""
        import optuna

        study = open_study(self.path, **self._limits)
        frozen = study.get_trials(deepcopy=False)[self.number]
        self._trial = optuna.Trial(study, frozen._trial_id)
        self._reported = set(frozen.intermediate_values)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Report the previous epoch, whose checkpoint has been written."""
        series: dict[str, list[float]] = pl_module.series  # type: ignore[assignment]
        names = [f"{split}/{score}" for split in ("val", "test") for score in ("acc", "mae")]
        values = next((series[name] for name in names if series.get(name)), [])
        if self._trial is None or not values:
            return
        epoch = len(values) - 1
        if epoch not in self._reported:
            self._trial.report(values[-1], epoch)
            self._reported.add(epoch)
        if self._trial.should_prune():
            raise PrunedError(f"Pruned after epoch {epoch}.")
