"""train.py that appends a byte to the file ``steps`` after each optimizer step.

The first process that sees the file ``poison`` after a step deletes it and kills itself.
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

if __name__ == "__main__":  # pytest also imports this file
    steps = os.open("steps", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def count(*_: Any) -> None:
        os.write(steps, b".")
        with suppress(FileNotFoundError):
            Path("poison").unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)  # results depend on their number
    register_optimizer_step_post_hook(count)
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
