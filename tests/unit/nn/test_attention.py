"""FocusedAttention: the formula, and the interface of nn.MultiheadAttention."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from focusing import FocusConstraint, FocusedAttention, param_groups
from tests.unit.nn import oracle
from tests.unit.nn.oracle import assert_same


def made(*sizes: int, seed: int = 0, **options: Any) -> FocusedAttention:
    torch.manual_seed(seed)
    return FocusedAttention(*sizes, **{"batch_first": True, "dtype": torch.float64, **options})


def attend(
    layer: FocusedAttention, x: np.ndarray, tau: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Self-attention of one sample, query by query and key by key; also the weights by head."""
    values = {name: oracle.array(v) for name, v in layer.state_dict().items()}
    q, k, v = np.split(x @ values["in_proj_weight"].T + values["in_proj_bias"], 3, axis=1)
    tokens, width = x.shape
    size = width // layer.num_heads
    joined, weights = np.zeros_like(x), np.zeros((layer.num_heads, tokens, tokens))
    for head, i in itertools.product(range(layer.num_heads), range(tokens)):
        columns = slice(head * size, (head + 1) * size)
        for key in range(tokens):
            u = (tau[key] - tau[i] - values["mu"][head]) / values["sigma"][head]
            score = q[i, columns] @ k[key, columns] / math.sqrt(size)
            weights[head, i, key] = math.exp(score) * math.exp(-(u @ u) / 2) * allowed[i, key]
        weights[head, i] /= weights[head, i].sum()
        joined[i, columns] = weights[head, i] @ v[:, columns]
    return joined @ values["out_proj.weight"].T + values["out_proj.bias"], weights


@settings(max_examples=25)
@given(
    topology=st.sampled_from([None, 9, (6,), (3, 2), (2, 3, 1)]),
    heads=st.sampled_from([1, 2, 4]),
    mu=st.floats(-0.5, 0.5),
    sigma=st.floats(0.2, 2),
    causal=st.booleans(),
    need_weights=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_formula(
    topology: Any,
    heads: int,
    mu: float,
    sigma: float,
    causal: bool,
    need_weights: bool,
    seed: int,
) -> None:
    layer = made(8, heads, topology=topology, mu=mu, sigma=sigma, seed=seed)
    nn.init.normal_(layer.in_proj_bias)
    with torch.no_grad():
        layer.mu += torch.randn_like(layer.mu) / 10
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    tau = np.arange(6)[:, None] / (8 if topology == 9 else 5)
    if isinstance(topology, tuple):
        tau = oracle.grid(*topology)
    allowed = np.tril(np.ones((6, 6))) if causal else np.ones((6, 6))
    mask = torch.tensor(allowed == 0) if causal else None
    y, weights = layer(x, x, x, attn_mask=mask, need_weights=need_weights)
    for sample in range(2):
        expected, shares = attend(layer, oracle.array(x[sample]), tau, allowed)
        np.testing.assert_allclose(oracle.array(y[sample]), expected, rtol=1e-6, atol=1e-9)
        if need_weights:
            np.testing.assert_allclose(oracle.array(weights[sample]), shares.mean(0), atol=1e-9)


CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "fused": {"need_weights": False},
    "by head": {"average_attn_weights": False},
    "bool mask": {"attn_mask": torch.ones(5, 7).triu(3).bool()},
    "mask of heads": {"attn_mask": torch.linspace(0, 1, 3 * 2 * 5 * 7).view(6, 5, 7)},
    "padding": {"key_padding_mask": torch.tensor([[False] * 5 + [True] * 2] * 3)},
    "both": {
        "attn_mask": torch.ones(5, 7).triu(3).bool(),
        "key_padding_mask": torch.tensor([[False] * 6 + [True]] * 3),
        "is_causal": True,
    },
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("sizes", [{}, {"kdim": 3, "vdim": 5}, {"bias": False}], ids=str)
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_wide_focus_is_torchs_attention(
    call: dict[str, Any], sizes: dict[str, Any], batch_first: bool, device: torch.device
) -> None:
    """State dicts and calls are interchangeable, with cross-attention too."""
    call = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in call.items()
    }
    focused = made(8, 2, sigma=1e6, batch_first=batch_first, dtype=torch.float32, **sizes)
    plain = nn.MultiheadAttention(8, 2, batch_first=batch_first, **sizes)
    missing, unexpected = focused.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == (["mu", "sigma"], [])
    inputs = [
        torch.randn(3, tokens, size)
        for tokens, size in ((5, 8), (7, sizes.get("kdim", 8)), (7, sizes.get("vdim", 8)))
    ]
    if not batch_first:
        inputs = [x.transpose(0, 1) for x in inputs]
    for one, two in zip(focused(*inputs, **call), plain(*inputs, **call), strict=True):
        assert (one is None) == (two is None)
        if one is not None:
            assert_same(one, two)
    if not call:  # without a batch
        alone = [x[0] if batch_first else x[:, 0] for x in inputs]
        assert_same(list(focused(*alone)), list(plain(*alone)))


@pytest.mark.parametrize("training", [True, False])
def test_in_torchs_own_encoder(training: bool) -> None:
    """Its fast path for inference, which would skip the focus, must be off."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).train(training)
    x = torch.randn(2, 6, 8)
    with torch.no_grad():
        before = layer(x)
        state = layer.self_attn.state_dict()
        layer.self_attn = FocusedAttention(8, 2, batch_first=True, sigma=0.1).train(training)
        layer.self_attn.load_state_dict(state, strict=False)
        narrow = layer(x)
        layer.self_attn.sigma.fill_(1e6)
        assert_same(layer(x), before)
    assert not torch.allclose(narrow, before, atol=1e-3)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_of_an_encoder_are_refused() -> None:
    plain = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(plain, 1).eval()
    encoder.layers[0].self_attn = FocusedAttention(8, 2, batch_first=True)
    x, padding = torch.randn(2, 6, 8), torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    with torch.no_grad():
        with pytest.raises(ValueError, match="set use_nested_tensor = False in the nn.Transform"):
            encoder(x, src_key_padding_mask=padding)
        encoder.use_nested_tensor = False
        assert encoder(x, src_key_padding_mask=padding).shape == x.shape


def test_learning_rates_and_constraint() -> None:
    layer = made(8, 4, topology=12)
    assert layer.sigma[:, 0].tolist() == pytest.approx([0.05, 0.05 * 10 ** (1 / 3), 0.2320794, 0.5])
    groups = param_groups(layer, lr=1e-9, lr_mu=1e9, lr_sigma=1e9)
    assert [group["name"] for group in groups] == ["weight", "other", "mu", "sigma"]
    optimizer = torch.optim.SGD(groups)
    FocusConstraint(layer, optimizer)
    x = torch.randn(2, 12, 8, dtype=torch.float64)
    layer(x, x, x)[0].square().sum().backward()
    optimizer.step()
    assert layer.mu.abs().max().item() == 1
    assert ((layer.sigma >= 0.01) & (layer.sigma <= 10)).all()
    layer.regularization(2).backward()
    frozen = made(8, 2, train_mu=False, train_sigma=False)
    assert not any(focus.requires_grad for focus in (frozen.mu, frozen.sigma))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"add_zero_attn": True}, "add_zero_attn must be False"),
        ({"num_heads": 3}, "num_heads=3 does not divide embed_dim=8."),
        ({"sigma": 0.0}, "sigma=0.0 must be finite and greater than 0."),
        ({"sigma": (0.3, 0.1)}, "sigma=.* 0 < low <= high."),
        ({"sigma": torch.ones(3)}, r"sigma has shape \(3,\): .* = \(2, 1\)"),
        ({"mu": 2.0}, "mu=2.0 must be in -1 to 1."),
        ({"mu": math.nan}, "mu=nan must be in -1 to 1."),
        ({"sigma_range": (0.0, 1.0)}, "sigma_range"),
        ({"topology": (2, 2, 2, 2)}, "topology="),
    ],
)
def test_wrong_arguments(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FocusedAttention(**{"embed_dim": 8, "num_heads": 2, **options})


def test_wrong_calls() -> None:
    layer, x = made(8, 2, topology=(2, 3)), torch.zeros(1, 5, 8, dtype=torch.float64)
    with pytest.raises(ValueError, match="has 6 tokens but the input has 5 queries"):
        layer(x, x, x)
    with pytest.raises(ValueError, match="give attn_mask too"):
        layer(x, x, x, is_causal=True)


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.float64)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ({"attn_mask": ones(5, 5).triu(1).to(torch.uint8)}, "attn_mask has dtype torch.uint8"),
        ({"key_padding_mask": ones(3, 5).long()}, "key_padding_mask has dtype torch.int64"),
        ({"attn_mask": ones(2, 5, 5)}, r"must have \(5, 5\) or \(6, 5, 5\)"),  # one per head
        ({"attn_mask": ones(1, 5)}, r"attn_mask has shape \(1, 5\)"),
        ({"key_padding_mask": ones(1, 5)}, r"\(1, 5\) but must have \(3, 5\)"),
        ({"key_padding_mask": ones(5)}, r"\(5,\) but must have \(3, 5\)"),
        ({"query": ones(1, 5, 8)}, "have 1, 3 and 3 samples"),
        ({"key": ones(1, 5, 8)}, "have 3, 1 and 3 samples"),
        ({"value": ones(3, 1, 8)}, "5, 5 and 1 tokens"),
        ({"value": ones(5, 8)}, "have 3, 3 and 2 dimensions"),
    ],
)
def test_calls_that_torch_refuses(call: dict[str, Any], sentence: str) -> None:
    """Nothing is broadcast, and integers are not added to the scores."""
    call = {name: ones(3, 5, 8) for name in ("query", "key", "value")} | call
    with pytest.raises((AssertionError, RuntimeError)):
        nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)(**call)
    with pytest.raises(ValueError, match=sentence):
        made(8, 2)(**call)


@pytest.mark.parametrize("sizes", [{}, {"kdim": 3}], ids=str)
def test_reset_parameters(sizes: dict[str, int], device: torch.device) -> None:
    """Projections as torch draws them, foci as given; it fills a layer from the meta device."""
    with torch.device("meta"):
        layer = FocusedAttention(8, 2, mu=0.1, **sizes)
    plain = nn.MultiheadAttention(8, 2, **sizes)
    layer.to_empty(device=device).load_state_dict(plain.state_dict(), strict=False)
    for attention in (plain, layer):
        torch.manual_seed(1)
        attention._reset_parameters()
    for name, value in plain.state_dict().items():
        assert torch.equal(layer.state_dict()[name], value), name
    assert torch.equal(layer.mu, torch.full((2, 1), 0.1, device=device))
    assert layer.sigma.flatten().tolist() == pytest.approx([0.05, 0.5])
    assert not layer._qkv_same_embed_dim  # no fast path
