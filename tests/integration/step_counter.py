"""A callback that appends a byte to the file ``steps`` after each optimizer step."""

import os
from typing import Any

import pytorch_lightning as pl
from torch.optim.optimizer import register_optimizer_step_post_hook

COUNTED = ["--trust-target", "tests.integration.step_counter.StepCounter"]
COUNTED += ["+callbacks.count._target_=tests.integration.step_counter.StepCounter"]


class StepCounter(pl.Callback):
    def on_train_start(self, *_: Any) -> None:
        file = os.open("steps", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self.hook = register_optimizer_step_post_hook(lambda *_: os.write(file, b"."))

    def on_train_end(self, *_: Any) -> None:
        self.hook.remove()
