"""train.py, which also adds a byte to the file ``steps`` per optimizer step.

The first process to find the file ``poison`` after a step is killed.
"""

import os
import runpy
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.integration.commands import ROOT

if __name__ == "__main__":  # pytest imports this file, too
    steps = os.open("steps", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def count(*_: Any) -> None:
        os.write(steps, b".")
        with suppress(FileNotFoundError):
            Path("poison").unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)  # bits depend on their number, which a fork inherits
    register_optimizer_step_post_hook(count)
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
