"""counted_train.py, whose first process to find the file ``poison`` while it trains is killed."""

import os
import runpy
import signal
from pathlib import Path
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.integration.commands import ROOT


def drink(*_: Any) -> None:
    try:
        Path("poison").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    register_optimizer_step_post_hook(drink)
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
