"""The small transformer."""

from typing import Any

import pytest
import torch

from focusing.models import Transformer, focused_transformer
from focusing.nn import FocusedAttention
from tests.unit.nn.oracle import assert_same

SIZES: dict[str, Any] = {"width": 8, "heads": 2, "blocks": 2, "hidden": 12, "patch": 3}


def focused(**options: Any) -> Transformer:
    torch.manual_seed(0)
    return focused_transformer((9, 6, 2), 5, **{**SIZES, **options})


def test_positions_of_patches_and_words() -> None:
    net, x = focused(), torch.randn(3, 9, 6, 2)
    assert net(x).shape == (3, 5)
    for block in net.blocks:
        assert isinstance(block.attention, FocusedAttention)
        assert block.attention.topology.axes == (3, 2)
    text = focused_transformer((7,), 2, 30, **SIZES, sigma=0.1, train_mu=False)
    assert text(torch.randint(30, (3, 7), dtype=torch.int32)).shape == (3, 1)
    assert text.blocks[0].attention.mu.shape == (2, 1)
    assert not text.blocks[0].attention.mu.requires_grad


def test_a_patch_is_a_token_row_by_row() -> None:
    net, x = focused(), torch.zeros(1, 9, 6, 2)
    x[0, 3:6, 3:6] = torch.randn(3, 3, 2)  # the fourth patch
    seen: list[torch.Tensor] = []
    net.blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    net(x)
    net(torch.zeros_like(x))
    changed = (seen[0] != seen[1]).any(-1)[0]
    assert changed.tolist() == [False, False, False, True, False, False]


def test_wide_foci_match_plain_attention() -> None:
    net, x = focused(sigma=1e6, dropout=0.0), torch.randn(3, 9, 6, 2)
    plain = Transformer((9, 6, 2), 5, **SIZES, dropout=0.0)
    plain.load_state_dict(net.state_dict(), strict=False)
    assert_same(net(x), plain(x))
    assert_same(net.to_inference()(x), net.eval()(x))


def test_summary_and_dense_twin() -> None:
    net = focused()
    summary = {layer.name: layer for layer in net.summary().layers}
    attention = summary["blocks.0.attention"]
    assert attention.output == (6, 8)
    assert attention.multiply_adds == 6 * (4 * 8 * 8) + 2 * 6 * 6 * 8  # projections, products
    assert summary["blocks.1.expand"].multiply_adds == 6 * 8 * 12
    assert summary["embedding"].multiply_adds == 6 * 8 * 3 * 3 * 2
    assert net.summary().totals()["parameters"] == sum(p.numel() for p in net.parameters())
    twin = net.match_parameters()
    assert not any(isinstance(module, FocusedAttention) for module in twin.modules())
    assert abs(twin.summary().totals()["trained"] - net.summary().totals()["trained"]) <= 2 * (
        8 + 8 + 1
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"heads": 3}, "width=8 is not a multiple of heads=3"),
        ({"patch": 4}, "patch=4 does not divide the images, 9x6"),
        ({"dropout": 1.0}, "model.dropout=1.0 must be less than 1"),
        ({"vocabulary": 3}, "A text is a row of words"),
        ({"sigma": -1.0}, "sigma=-1.0 must be finite and greater than 0"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        focused(**options)
