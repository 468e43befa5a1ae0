"""A run gives the same numbers as the paper's Algorithm 3, which is written out here.

The reference uses nothing of the package but the data and the initial weights. Phi, batch norm, SGD
with momentum and three learning rates, clipping and the score are all spelled out.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from focusing.compose import check_config, compose_config
from focusing.run import train
from focusing.training.trainer import build_net, load_data
from tests.integration.commands import record

SETTINGS = [
    "data.n_samples=240",
    "model.sigma=0.05",
    "optim.batch_size=48",
    "optim.lr=0.05",
    "optim.lr_mu=0.3",  # large: foci hit their bounds
    "optim.lr_sigma=0.1",
    "trainer.max_epochs=4",
    "trainer.precision=64-true",
    "seed=5",
    "figures=false",
    "callbacks.progress=null",
]
MOMENTUM, EPS, FORGET = 0.9, 1e-5, 0.1


def phi(tau: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    g = torch.exp(-((tau - mu[:, None]) ** 2) / (2 * sigma[:, None] ** 2))
    return len(tau) ** 0.5 * g / (g**2).sum(1, keepdim=True).sqrt()


class ByHand:
    """A hidden layer of focusing neurons, batch norm, ReLU, and a dense output layer."""

    def __init__(self, start: dict[str, Tensor], inputs: int) -> None:
        names = {key: f"hidden1.{key}" for key in ("mu", "sigma", "weight", "bias")}
        names |= {"gamma": "norm1.weight", "beta": "norm1.bias"}
        names |= {"out": "output.weight", "shift": "output.bias"}
        self.p = {key: start[name].double().clone() for key, name in names.items()}
        self.p["mu"], self.p["sigma"] = self.p["mu"].flatten(), self.p["sigma"].flatten()
        self.velocity = {key: torch.zeros_like(value) for key, value in self.p.items()}
        self.mean = torch.zeros_like(self.p["gamma"])
        self.var = torch.ones_like(self.p["gamma"])
        self.tau = torch.linspace(0, 1, inputs, dtype=torch.float64)
        self.clipped = 0

    def output(self, x: Tensor, *, training: bool) -> Tensor:
        p = self.p
        z = x @ (phi(self.tau, p["mu"], p["sigma"]) * p["weight"]).T + p["bias"]
        if training:
            mean, var = z.mean(0), z.var(0, unbiased=False)
            with torch.no_grad():
                unbiased = var * len(x) / (len(x) - 1)
                self.mean = (1 - FORGET) * self.mean + FORGET * mean
                self.var = (1 - FORGET) * self.var + FORGET * unbiased
        else:
            mean, var = self.mean, self.var
        z = (z - mean) / (var + EPS).sqrt() * p["gamma"] + p["beta"]
        return z.clamp_min(0) @ p["out"].T + p["shift"]

    def update(self, x: Tensor, y: Tensor, rates: dict[str, float]) -> None:
        for value in self.p.values():
            value.requires_grad_(True)
        output = self.output(x, training=True)
        chosen = torch.log_softmax(output, 1)[torch.arange(len(y)), y]
        gradients = torch.autograd.grad(-chosen.mean(), list(self.p.values()))
        with torch.no_grad():
            for (key, value), gradient in zip(self.p.items(), gradients, strict=True):
                self.velocity[key] = MOMENTUM * self.velocity[key] + gradient
                self.p[key] = (value - rates.get(key, rates["all"]) * self.velocity[key]).detach()
            before = {key: self.p[key].clone() for key in ("mu", "sigma")}
            self.p["sigma"].clamp_(0.01, 1.0)
            self.p["mu"].clamp_(0.0, 1.0)
            self.clipped += sum(int((self.p[key] != old).sum()) for key, old in before.items())


def order(seed: int, epoch: int, count: int) -> Tensor:
    state = np.random.SeedSequence([seed, epoch, 0]).generate_state(1, np.uint64)[0] >> 1
    return torch.randperm(count, generator=torch.Generator().manual_seed(int(state)))


def test_training_follows_algorithm_3(tmp_path: Path) -> None:
    cfg = compose_config(*SETTINGS, f"paths.output_dir={tmp_path}")
    train(cfg)
    config = check_config(cfg)
    [run_dir] = tmp_path.glob("*/*/seed=5")
    data = load_data(config)
    x, y = data.train.inputs.double().flatten(1), data.train.targets
    test_x, test_y = data.test.inputs.double().flatten(1), data.test.targets
    optim = config["optim"]
    rates = {"all": optim["lr"], "mu": optim["lr_mu"], "sigma": optim["lr_sigma"]}
    net = ByHand(build_net(config, data).state_dict(), x.shape[1])
    accuracies = []
    for epoch in range(config["trainer"]["max_epochs"]):
        for batch in order(config["seed"], epoch, len(y)).split(optim["batch_size"]):
            net.update(x[batch], y[batch], rates)
        with torch.no_grad():
            predicted = net.output(test_x, training=False).argmax(1)
        accuracies.append((predicted == test_y).double().mean().item())
    assert net.clipped > 10  # or clipping would not be tested

    run = record(run_dir)
    assert run["series"]["test/acc"] == pytest.approx(accuracies, abs=1e-12)
    best = int(np.argmax(accuracies))
    assert run["scores"]["best_test"] == {"value": pytest.approx(max(accuracies)), "epoch": best}
    foci = np.load(run_dir / "focus.npz")
    mu, sigma = (foci[name][-1].flatten() for name in ("hidden1/mu", "hidden1/sigma"))
    np.testing.assert_allclose(mu, net.p["mu"].detach(), atol=1e-5)
    np.testing.assert_allclose(sigma, net.p["sigma"].detach(), atol=1e-5)
