"""Parameter groups, learning rates and annealing."""

from typing import Any

import pytest
import torch

from focusing.config import Optim
from focusing.errors import UserError
from focusing.models import MLP, focused_mlp
from focusing.nn import FocusedLinear
from focusing.training.optimizer import anneal_sigma, build_optimizer, set_learning_rates


def optim(**options: Any) -> Optim:
    given = {"name": "SGD", "lr": 0.1, "lr_mu": 0.01, "lr_sigma": 0.001, "batch_size": 8}
    return Optim(**{**given, **options})


def net() -> MLP:
    return focused_mlp(9, 2, hidden=[3, 4], mu="spread", sigma=0.1)


def groups(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    return {group["name"]: group for group in optimizer.param_groups}


def test_every_parameter_is_in_its_group_once() -> None:
    network = net()
    found = groups(build_optimizer(network, optim(momentum=0.9)))
    assert {name: group["lr"] for name, group in found.items()} == {
        "weight": 0.1,
        "other": 0.1,
        "mu": 0.01,
        "sigma": 0.001,
    }
    first, second = network.focused_layers().values()
    assert {id(each) for each in found["mu"]["params"]} == {id(first.mu), id(second.mu)}
    assert {id(each) for each in found["sigma"]["params"]} == {id(first.sigma), id(second.sigma)}
    assert [each.dim() for each in found["weight"]["params"]] == [2, 2, 2]
    assert all(each.dim() == 1 for each in found["other"]["params"])
    ids = [id(each) for group in found.values() for each in group["params"]]
    assert sorted(ids) == sorted(id(each) for each in network.parameters())
    assert found["weight"]["momentum"] == 0.9


def test_fixed_foci_and_dense_nets_have_fewer_groups() -> None:
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
            loss = loss + 0.05 * sum(each.square().sum() for each in weights)
        loss.backward()
        optimizer.step()
    for one, two in zip(plain.parameters(), penalised.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "AdamW", "NAdam", "Adagrad"])
def test_any_torch_optimizer_has_the_same_groups(name: str) -> None:
    found = groups(build_optimizer(net(), optim(name=name, l2=1e-4)))
    assert set(found) == {"weight", "other", "mu", "sigma"}
    assert found["weight"]["weight_decay"] == 2e-4
    assert all(found[other].get("weight_decay", 0) != 2e-4 for other in ("other", "mu", "sigma"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "Adm"}, "did you mean Adam"),
        ({"name": "Optimizer"}, "is not an optimizer"),
        ({"name": "Adam", "momentum": 0.9}, r"optim\.momentum: Adam has no such option, use null"),
        ({"options": {"betas": [0, 1]}}, r"optim\.betas: SGD has no such option"),
        ({"name": "Rprop", "l2": 0.1}, "Rprop has no L2 penalty"),
        ({"name": "LBFGS"}, "optim.name=LBFGS"),
        ({"options": {"nesterov": True}}, "Nesterov"),
    ],
)
def test_what_an_optimizer_cannot_do_is_said(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build_optimizer(net(), optim(**options))


def test_rates_fall_at_the_given_epochs_by_the_given_factors() -> None:
    settings = optim(decay_epochs=[2, 5], decay=0.5, decay_sigma=0.1)
    optimizer = build_optimizer(net(), settings)
    rates = []
    for epoch in (0, 1, 2, 4, 5, 9, 0):
        set_learning_rates(optimizer, settings, epoch)
        found = groups(optimizer)
        rates.append([found[name]["lr"] for name in ("weight", "other", "mu", "sigma")])
    high, middle, low = (
        [0.1, 0.1, 0.01, 0.001],
        [0.05, 0.05, 0.005, 0.0001],
        [0.025, 0.025, 0.0025, 0.00001],
    )
    expected = [high, high, middle, middle, low, low, high]
    torch.testing.assert_close(torch.tensor(rates), torch.tensor(expected))


class TestAnnealing:
    def test_sigma_goes_from_wide_to_where_it_was(self) -> None:
        layer = FocusedLinear(9, 3, sigma=0.1)
        widths = []
        for epoch in range(6):
            anneal_sigma([layer], optim(anneal_from=4.0, anneal_epochs=3), epoch)
            widths.append(layer.sigma[0, 0].item())
        expected = [0.1 * 4 ** (1 - epoch / 3) for epoch in range(4)] + [0.1, 0.1]
        torch.testing.assert_close(torch.tensor(widths), torch.tensor(expected))

    def test_it_stays_in_range_and_is_off_by_default(self) -> None:
        layer = FocusedLinear(9, 3, sigma=0.5)
        anneal_sigma([layer], optim(), 0)
        assert layer.sigma[0, 0] == 0.5
        anneal_sigma([layer], optim(anneal_from=4.0, anneal_epochs=3), 0)
        assert layer.sigma[0, 0] == 1.0


def test_only_weights_decay_even_where_decay_is_the_default() -> None:
    found = groups(build_optimizer(net(), optim(name="AdamW")))
    assert found["weight"]["weight_decay"] > 0
    assert {found[each]["weight_decay"] for each in ("other", "mu", "sigma")} == {0}
