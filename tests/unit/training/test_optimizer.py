"""Optimizers, learning rates, sigma annealing and focus penalties."""

import copy
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from focusing.errors import UserError
from focusing.models import MLP, focused_mlp
from focusing.nn import FocusedLinear, param_groups
from focusing.training.optimizer import (
    anneal_sigma,
    build_optimizer,
    check_optimizers,
    repulsion,
    set_learning_rates,
)
from tests.unit.training.fitting import optim as slow

RATES = {"lr": 0.1, "lr_mu": 0.01, "lr_sigma": 0.001}


def optim(**options: Any) -> Any:
    return slow(**{**RATES, **options})


def net() -> MLP:
    return focused_mlp(9, 2, hidden=[3, 4], mu="spread", sigma=0.1)


def groups(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    return {group["name"]: group for group in optimizer.param_groups}


def test_learning_rates_of_the_parameter_groups() -> None:
    by_name = groups(build_optimizer(net(), optim(momentum=0.9)))
    rates = {name: group["lr"] for name, group in by_name.items()}
    assert rates == {"weight": 0.1, "other": 0.1, "mu": 0.01, "sigma": 0.001}
    assert by_name["weight"]["momentum"] == 0.9
    fixed = focused_mlp(9, 2, hidden=[3], mu="spread", sigma=0.1, train_mu=False, train_sigma=False)
    for network in (fixed, MLP(9, 2, [3])):
        assert set(groups(build_optimizer(network, optim()))) == {"weight", "other"}


def test_the_l2_penalty_is_l2_times_the_sum_of_squared_weights() -> None:
    torch.manual_seed(0)
    plain, penalised = net(), net()
    penalised.load_state_dict(plain.state_dict())
    inputs, targets = torch.randn(8, 9), torch.randint(2, (8,))
    for network, l2 in ((plain, 0.0), (penalised, 0.05)):
        optimizer = build_optimizer(network, optim(l2=l2))
        loss = torch.nn.functional.cross_entropy(network(inputs), targets)
        if not l2:
            weights = groups(optimizer)["weight"]["params"]
            loss = loss + 0.05 * sum(weight.square().sum() for weight in weights)
        loss.backward()
        optimizer.step()
    for one, two in zip(plain.parameters(), penalised.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "l2"),
    [(name, 1e-4) for name in ("Adam", "RMSprop", "AdamW", "NAdam", "Adagrad")] + [("AdamW", 0)],
)  # by default AdamW decays everything
def test_every_optimizer_decays_weights_only(name: str, l2: float) -> None:
    by_name = groups(build_optimizer(net(), optim(name=name, l2=l2)))
    decay = {group: options["weight_decay"] for group, options in by_name.items()}
    weight = 2 * l2 or torch.optim.AdamW([torch.zeros(1)]).defaults["weight_decay"]
    assert decay == {"weight": weight, "other": 0, "mu": 0, "sigma": 0}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "Adm"}, "did you mean Adam"),
        ({"name": "Optimizer"}, "is not an optimizer"),
        ({"name": "Adam", "momentum": 0.9}, r"optim\.momentum: Adam has no such option, use null"),
        ({"options": {"betas": [0, 1]}}, r"optim\.betas: SGD has no such option"),
        ({"name": "Rprop", "l2": 0.1}, "Rprop has no L2 penalty"),
        ({"name": "LBFGS"}, "optim.name=LBFGS"),
        ({"name": "SparseAdam"}, "SparseAdam wants sparse gradients: use another"),
        ({"options": {"nesterov": True}}, "Nesterov"),
        ({"options": {"dampening": "abc"}}, r"dampening=abc must be a value like 0\."),
        ({"options": {"dampening": None}}, r"dampening=None must be a value like 0\."),
        ({"options": {"dampening": [1]}}, r"dampening=\[1\] must be a value like 0\."),
        ({"options": {"differentiable": True}}, "differentiable: steps cannot be"),
        ({"name": "Adam", "options": {"betas": [0.9]}}, "optim.name=Adam: list index"),
        ({"foci": {"name": "Adm"}}, r"optim\.foci\.name=Adm is not .* did you mean Adam"),
        ({"foci": {"name": "Adam", "momentum": 0.9}}, r"optim\.foci\.momentum: Adam has no such"),
    ],
)
def test_unknown_optimizers_and_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build_optimizer(net(), optim(**options))


def test_names_are_checked_without_a_network() -> None:
    check_optimizers({"name": "SGD", "foci": {"name": None}})
    for names in ({"name": "Adm"}, {"name": "SGD", "foci": {"name": "Adm"}}):
        with pytest.raises(UserError, match="did you mean Adam"):
            check_optimizers({"foci": {"name": None}, **names})


def test_foci_may_have_their_own_optimizer() -> None:
    """A step is one of SGD for the weights and one of Adam for the foci."""
    torch.manual_seed(0)
    joint, apart = net(), net()
    apart.load_state_dict(joint.state_dict())
    options = {"momentum": 0.9, "foci": {"name": "Adam", "options": {"betas": [0.8, 0.9]}}}
    optimizer = build_optimizer(joint, optim(**options))
    by_name = {group["name"]: group for group in param_groups(apart, **RATES)}
    weights = torch.optim.SGD([by_name["weight"], by_name["other"]], momentum=0.9)
    foci = torch.optim.Adam([by_name["mu"], by_name["sigma"]], betas=(0.8, 0.9))
    steps: list[Any] = []
    hook = register_optimizer_step_post_hook(lambda *step: steps.append(step))
    inputs = torch.randn(8, 9)
    for step in range(4):
        joint(inputs).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert len(steps) == step + 1
        if step == 1:  # as when a run resumes
            state, optimizer = optimizer.state_dict(), build_optimizer(joint, optim(**options))
            optimizer.load_state_dict(state)
    hook.remove()
    for _ in range(4):
        apart(inputs).square().sum().backward()
        for one in (weights, foci):
            one.step()
            one.zero_grad()
    for one, two in zip(joint.parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_kernels_do_what_the_others_do(name: str, dtype: torch.dtype) -> None:
    """Also if the network is converted after the optimizer was made, as with 64-true."""
    torch.manual_seed(0)
    # No batch norm: gradients of biases before it are rounding errors, whose size Adam ignores.
    fused = focused_mlp(9, 2, hidden=[3, 4], mu="spread", sigma=0.1, batch_norm=False)
    plain = copy.deepcopy(fused)
    inputs = torch.randn(8, 9, dtype=dtype)
    for network, options in ((fused, {}), (plain, {"fused": False})):
        optimizer = build_optimizer(network, optim(name=name, options=options))
        assert {bool(group["fused"]) for group in optimizer.param_groups} == {not options}
        network.to(dtype)
        for _ in range(4):
            network(inputs).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for one, two in zip(fused.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {}), ("Adagrad", {}), ("Adam", {"foreach": True}), ("RMSprop", {})],
)
def test_other_kernels(name: str, options: dict[str, Any]) -> None:
    """They, too, take a network that is converted after the optimizer was made."""
    network = net()
    optimizer = build_optimizer(network, optim(name=name, options=options))
    assert not any(group.get("fused") for group in optimizer.param_groups)
    network.double()
    network(torch.randn(8, 9, dtype=torch.float64)).square().sum().backward()
    optimizer.step()


def test_learning_rates_decay_at_the_given_epochs() -> None:
    settings = optim(decay_epochs=[2, 5], decay=0.5, decay_sigma=0.1)
    optimizer = build_optimizer(net(), settings)
    for epoch, decays in {0: 0, 1: 0, 2: 1, 4: 1, 5: 2, 9: 2, 3: 1}.items():  # also backwards
        set_learning_rates(optimizer, settings, epoch)
        rates = {name: group["lr"] for name, group in groups(optimizer).items()}
        half, tenth = 0.5**decays, 0.1**decays
        expected = {"weight": 0.1 * half, "other": 0.1 * half, "mu": 0.01 * half}
        assert rates == pytest.approx({**expected, "sigma": 0.001 * tenth})


def test_annealing_widens_sigma_and_narrows_it_again() -> None:
    layer, settings = FocusedLinear(9, 3, sigma=0.1), optim(anneal_from=4.0, anneal_epochs=3)
    widths = []
    for epoch in range(6):
        anneal_sigma([layer], settings, epoch)
        widths.append(layer.sigma[0, 0].item())
    expected = [0.1 * 4 ** (1 - epoch / 3) for epoch in range(4)] + [0.1, 0.1]
    assert widths == pytest.approx(expected)


def test_annealing_stays_in_range_and_is_off_by_default() -> None:
    layer = FocusedLinear(9, 3, sigma=0.5)
    anneal_sigma([layer], optim(), 0)
    assert layer.sigma[0, 0] == 0.5
    anneal_sigma([layer], optim(anneal_from=4.0, anneal_epochs=3), 0)
    assert layer.sigma[0, 0] == 1.0


class TestRepulsion:
    @staticmethod
    def of(mu: Any) -> tuple[torch.Tensor, Any]:
        """The penalty, and the layer with its gradient."""
        layer = SimpleNamespace(mu=torch.tensor(mu, dtype=torch.float64, requires_grad=True))
        penalty = repulsion(layer)  # type: ignore[arg-type]
        penalty.backward()
        return penalty, layer

    def test_by_hand(self) -> None:
        # Two foci reach 1/2: exp(-(.3 / .5)^2 / 2) / 2.
        assert self.of([[0.2], [0.5]])[0].item() == pytest.approx(math.exp(-0.18) / 2)
        # Four in the plane reach 1/2 too.
        four = [[0.1, 0.1], [0.4, 0.1], [0.1, 0.5], [0.9, 0.9]]
        squares = [0.09, 0.16, 0.25, 1.28, 0.89, 0.8]
        expected = sum(math.exp(-2 * square) for square in squares) / 4
        assert self.of(four)[0].item() == pytest.approx(expected)
        assert self.of([[0.3]])[0].item() == 0  # a single focus
