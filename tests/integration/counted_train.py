"""train.py, which also adds a byte to the file ``steps`` for each optimizer step it makes."""

import os
import runpy
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.integration.commands import ROOT

STEPS = os.open("steps", os.O_CREAT | os.O_APPEND | os.O_WRONLY)


def count(*_: Any) -> None:
    os.write(STEPS, b".")


if __name__ == "__main__":
    register_optimizer_step_post_hook(count)
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
