"""train.py, which also adds a byte to the file ``steps`` per optimizer step."""

import os
import runpy

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.integration.commands import ROOT

if __name__ == "__main__":  # pytest imports this file, too
    steps = os.open("steps", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    torch.set_num_threads(1)  # bits depend on their number, which a fork inherits
    register_optimizer_step_post_hook(lambda *_: os.write(steps, b"."))
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
