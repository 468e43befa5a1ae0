"""Train, prune, export, predict: a network that is really smaller and faster.

Run it as a script, or cell by cell in an editor that supports ``# %%``.
"""

# %% Train a run on a table of 400 columns, 40 of them informative, as `focusing train` does.
import contextlib
import io
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from focusing import cli
from focusing.shipping.trained import load_run

workspace = tempfile.TemporaryDirectory()
folder = Path(workspace.name)


def focusing(*arguments: object) -> str:
    """Run `focusing ...` in this process; returns its output."""
    sys.argv = ["focusing", *map(str, arguments)]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cli.main()
    return printed.getvalue()


table = ["data=synthetic", "data.informative=40", "data.noise=360", "data.noise_position=sides"]
net = ["model=focus_s", "model.hidden=[600,600]", "trainer.max_epochs=4", "optim.batch_size=50"]
place = ["data.n_samples=1500", "protocol=holdout", "figures=false", f"paths.output_dir={folder}"]
focusing("train", *table, *net, *place)
[run] = folder.glob("*/*/seed=0")

# %% Prune it: `focusing prune RUN --sparsity 0.8`. The held-out rows measure the effect.
report = focusing("prune", run, "--sparsity", 0.8, "--finetune", 1)
print("...", *report.splitlines()[-8:-1], sep="\n")

# %% Export what is left, in tiles: `focusing export RUN --format exported-program --sparse ...`.
print(focusing("export", run, "--format", "exported-program", "--sparse", "--pruned"))

# %% Predict rows of a table: `focusing predict model.pt2 rows.csv --trust`.
trained = load_run(run, pruned=True)
scale = trained.data.preparation
if scale is not None:  # undo it: users have raw values
    rows = (trained.data.test.inputs[:3] - scale.offset) / scale.factor
    text = "\n".join(",".join(f"{value:.4f}" for value in row) for row in rows.tolist())
    (folder / "rows.csv").write_text(text)
print(f"rows of classes {trained.data.test.targets[:3].tolist()}:")
print(focusing("predict", run / "model.pt2", folder / "rows.csv", "--trust"))

# %% The speed-up: the same network, folded and in tiles.
dense, sparse = trained.net.to_inference(), trained.net.to_inference(sparse=True)
for batch in (1, 128):
    x = torch.randn(batch, 400)
    ratios = []
    with torch.inference_mode():
        for _ in range(60):
            seconds = []
            for net in (dense, sparse):
                net(x)
                begin = time.perf_counter()
                net(x)
                seconds.append(time.perf_counter() - begin)
            ratios.append(seconds[0] / seconds[1])
    print(f"batch {batch}: {statistics.median(ratios):.1f} times as fast as the folded network")
workspace.cleanup()
