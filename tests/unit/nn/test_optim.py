"""Parameter groups and the constraint of an optimizer."""

import pytest
import torch
from torch import nn

import focusing
from focusing import FocusConstraint, FocusedLinear, param_groups


def model(**options: object) -> nn.Sequential:
    layer = FocusedLinear(12, 8, **options)  # type: ignore[arg-type]
    return nn.Sequential(nn.Conv1d(1, 1, 3), layer, nn.BatchNorm1d(8), nn.Linear(8, 2))


def test_every_parameter_is_in_one_group() -> None:
    net = model()
    groups = {group["name"]: group for group in param_groups(net, lr=0.1)}
    assert [*groups] == ["weight", "other", "mu", "sigma"]
    ids = [id(parameter) for group in groups.values() for parameter in group["params"]]
    assert sorted(ids) == sorted(map(id, net.parameters()))
    assert groups["mu"]["params"] == [net[1].mu]
    assert groups["sigma"]["params"] == [net[1].sigma]
    assert [parameter.dim() for parameter in groups["weight"]["params"]] == [3, 2, 2]


def test_missing_options_are_left_to_the_optimizer() -> None:
    optimizer = torch.optim.AdamW(param_groups(model()), lr=0.5, weight_decay=0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5] * 4
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.25, 0.0, 0.0, 0.0]
    rates = {group["name"]: group["lr"] for group in param_groups(model(), lr=0.1, lr_mu=0.0)}
    assert rates == {"weight": 0.1, "other": 0.1, "mu": 0.0, "sigma": 0.1}


@pytest.mark.parametrize("net", [model(train_mu=False, train_sigma=False), nn.Linear(3, 2)])
def test_frozen_foci_and_dense_models_have_no_groups_of_foci(net: nn.Module) -> None:
    assert [group["name"] for group in param_groups(net)] == ["weight", "other"]


def test_the_constraint_acts_after_each_step_until_it_is_removed() -> None:
    net = nn.Sequential(FocusedLinear(30, 20), nn.ReLU(), FocusedLinear(20, 5))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e4)
    constraint = FocusConstraint(net, optimizer)

    def step() -> bool:
        optimizer.zero_grad()
        net(torch.randn(5, 30)).square().sum().backward()
        optimizer.step()
        return all(
            ((layer.mu >= 0) & (layer.mu <= 1)).all()
            and ((layer.sigma >= 0.01) & (layer.sigma <= 1)).all()
            for layer in (net[0], net[2])
        )

    assert step()
    assert step()
    constraint.remove()
    for layer in (net[0], net[2]):
        layer.reset_parameters()
    assert not step()


def test_public_names() -> None:
    assert set(dir(focusing)) == set(focusing.__all__)
    for name in focusing.__all__:
        assert getattr(focusing, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = focusing.nothing
    assert focusing.functional.focused_linear is not None
