# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # The framework
# A config, a run, a record: what `python train.py` does, from Python.

# %%
import tempfile
from pathlib import Path

from focusing.compose import compose_config
from focusing.results.collect import collect
from focusing.run import train

folder = Path(tempfile.mkdtemp())
small = ["trainer.max_epochs=5", "figures=false", f"paths.output_dir={folder}", "callbacks=none"]
for model in ("dense", "focus_s"):
    for seed in (0, 1):
        train(compose_config(f"model={model}", f"seed={seed}", *small))

# %% [markdown]
# Every run has left a record. All records make one tidy table.

# %%
for run in collect([folder]).runs:
    print(f"{run.model:8} seed {run.seed}: {100 * run.scores['best_test']:.1f} %")

# %% [markdown]
# The same from the shell: `python train.py -m model=dense,focus_s seed=0,1`,
# then `focusing report`.
