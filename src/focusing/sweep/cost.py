"""What a run will cost on this machine, from a few of its steps."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focusing.data.splits import read_split

if TYPE_CHECKING:
    import torch

SAMPLES = {
    "mnist": (60_000, 10_000),
    "clt": (60_000, 10_000),
    "cifar10": (50_000, 10_000),
    "fashion": (60_000, 10_000),
    "lfw": (2267, 756),
    "fsdd": (1250, 1250),
    "catsdogs": (19_000, 6000),
    "boston": (404, 102),
    "reuters": (8982, 2246),
    "dna": (2000, 1186),
    "imdb": (25_000, 25_000),
}
"""Training and test samples of each data set, as it is split by default."""
RANDOM = {"dna": 0.2}
"""Test shares of random splits that are not those above, if the user does not say."""
START, EPOCH = 1.0, 0.03
"""Seconds that a run and each of its epochs take beside the steps: to read, score and write."""
FEW, LONG = 4, 0.5
"""Samples of a first step; if it takes so many seconds, whole batches are not measured."""


@dataclass(frozen=True)
class Speed:
    """Seconds.

    Attributes:
        step: one optimizer step.
        sample: one sample that is only looked at.
    """

    step: float
    sample: float


def estimate(configs: Iterable[Mapping[str, Any]], *, fresh: bool = False) -> float:
    """Seconds that runs take, one after the other.

    Args:
        configs: from :func:`focusing.compose.check`.
        fresh: measure also what an earlier call has measured.
    """
    return sum(run_seconds(config, speed_of(config, fresh=fresh)) for config in configs)


def run_seconds(config: Mapping[str, Any], speed: Speed) -> float:
    """Seconds of a run at that speed."""
    train, test = samples(config["data"])
    held = round(train * config["protocol"]["holdout"])
    steps = math.ceil((train - held) / config["optim"]["batch_size"])
    steps = min(steps, config["trainer"]["limit_batches"] or steps)
    epoch = EPOCH + steps * speed.step + (held + test) * speed.sample
    return START + float(config["trainer"]["max_epochs"] * epoch)


def samples(data: Mapping[str, Any]) -> tuple[int, int]:
    """Training and test samples of the data of a config."""
    if "split" not in data:
        test = round(data["n_samples"] * data["test_share"])
        return data["n_samples"] - test, test
    train, test = SAMPLES[data["name"]]
    kind, folds = read_split(data["split"])
    total = train + test
    share = data["test_share"] or RANDOM.get(data["name"])
    if kind == "random" and share:
        test = math.ceil(total * share)
    elif kind == "kfold":
        test = total // folds
    train = total - test
    return min(train, data["limit_train"] or train), min(test, data["limit_test"] or test)


def speed_of(config: Mapping[str, Any], *, fresh: bool = False) -> Speed:
    """The speed of a config's network here, measured once and kept in the user's cache folder."""
    return Speed(**kept(_what(config), lambda: asdict(measure(config)), fresh=fresh))


def kept(what: Any, find: Callable[[], Any], *, fresh: bool = False) -> Any:
    """What was found for the same thing on this machine before, or else is found now.

    Args:
        what: plain values that it depends on, beside the machine and the versions.
        find: returns plain values.
        fresh: find it again.
    """
    import torch

    from focusing import __version__

    here = [platform.node(), os.cpu_count(), torch.get_num_threads(), torch.__version__]
    key = json.dumps([__version__, here, what], sort_keys=True)
    path = _cache()
    known = _read(path)
    if key not in known or fresh:
        known[key] = find()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known, indent=0), encoding="utf-8")
    return known[key]


def measure(config: Mapping[str, Any]) -> Speed:
    """Take a few steps with the real network, on fake data in batches of the real size."""
    import torch

    from focusing.config import Optim
    from focusing.training.metrics import loss_of
    from focusing.training.optimizer import build_optimizer
    from focusing.training.trainer import build_net, load_data

    data = load_data({**config, "data": _fake(config["data"])})
    model = dict(config["model"])
    if "pretrained" in model:
        model["pretrained"] = False  # other weights are as fast
    device = torch.device("cuda" if _wants_gpu(config) else "cpu")
    net = build_net({**config, "model": model}, data).to(device)
    optimizer = build_optimizer(net, Optim(**config["optim"]))
    foci = [each for each in net.modules() if hasattr(each, "constrain_")]
    generator = torch.Generator().manual_seed(0)

    def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        index = torch.arange(size) % len(data.train.targets)
        inputs, targets = data.train.inputs[index], data.train.targets[index]
        if data.prepare is not None:
            inputs = data.prepare(inputs)
        return inputs.to(device), targets.to(device)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> None:
        if data.augment is not None:
            inputs = data.augment(inputs, generator)
        torch.autograd.backward(loss_of(net(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
        for each in foci:
            each.constrain_()  # type: ignore[operator]

    def look(inputs: torch.Tensor, targets: torch.Tensor) -> None:
        net.eval()
        with torch.no_grad():
            net(inputs)

    def seconds(act: Callable[..., None], size: int) -> float:
        """Of a batch; of a costly one, on the line through two small ones."""
        small = batch(min(FEW, size))
        if _clock(act, *small) < LONG:
            whole = batch(size)
            return min(_clock(act, *whole) for _ in range(3))
        larger = batch(min(2 * FEW, size))
        one, two = _clock(act, *small), _clock(act, *larger)
        return one + max(0.0, two - one) / FEW * (size - FEW)

    size = min(config["optim"]["batch_size"], samples(config["data"])[0])
    return Speed(seconds(step, size), seconds(look, 256) / 256)


def _clock(act: Callable[..., None], *given: torch.Tensor) -> float:
    started = time.perf_counter()
    act(*given)
    if given[0].is_cuda:
        given[0].sum().item()  # waits for all that was queued
    return time.perf_counter() - started


def _wants_gpu(config: Mapping[str, Any]) -> bool:
    import torch

    return config["trainer"]["accelerator"] in ("auto", "gpu") and torch.cuda.is_available()


def _fake(data: Mapping[str, Any]) -> dict[str, Any]:
    return {**data, "fake": True, "limit_train": None, "limit_test": None}


def _what(config: Mapping[str, Any]) -> list[Any]:
    """What the speed of a step depends on: the network and its data."""
    optim = config["optim"]
    data = {k: v for k, v in config["data"].items() if k not in ("fold", "split_seed", "fake")}
    return [config["model"], data, optim["batch_size"], optim["name"], _wants_gpu(config)]


def _cache() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("focusing")) / "speeds.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except (OSError, ValueError):  # none yet, or cut short
        return {}
