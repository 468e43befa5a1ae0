"""The study of a search: what its trials tried and scored, in a file that many processes share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from focusing.errors import UserError

if TYPE_CHECKING:
    import optuna

SUFFIX = ".journal"


def require_optuna() -> None:
    """Say what to install if Optuna is not there."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UserError("hydra/sweeper=optuna needs: pip install 'focusing[optuna]'") from None


def open_study(path: Path, *, after_trials: int, after_epochs: int, **options: Any) -> optuna.Study:
    """The Optuna study of a file, made if needed.

    Args:
        path: the file.
        after_trials: so many trials are never given up,
        after_epochs: nor is a trial before so many epochs.
        **options: of ``optuna.create_study``.
    """
    require_optuna()
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A process that was killed leaves its lock behind: taken over after so many seconds.
    lock = JournalFileSymlinkLock(str(path), grace_period=5)
    return optuna.create_study(
        study_name="focusing",
        storage=JournalStorage(JournalFileBackend(str(path), lock)),
        pruner=optuna.pruners.MedianPruner(after_trials, after_epochs),
        load_if_exists=True,
        **options,
    )
