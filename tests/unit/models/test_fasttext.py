"""The paper's network for texts."""

import torch
from torch import nn

from focusing.models import FastText, focused_fasttext


def test_the_mean_is_over_all_tokens_and_padding_counts() -> None:
    torch.manual_seed(0)
    net = FastText(5, 2, 30, embedding=6)
    tokens = torch.tensor([[0, 0, 0, 7, 9]], dtype=torch.int32)
    rows = net.embedding.weight[tokens[0].long()]
    assert rows[0].any()  # token 0, which pads, has an embedding like any other
    torch.testing.assert_close(net(tokens)[0], net.output(rows.mean(0)), rtol=1e-4, atol=1e-4)


def test_two_classes_have_one_neuron_and_three_have_three() -> None:
    tokens = torch.zeros(4, 9, dtype=torch.int64)
    assert FastText(9, 2, 30)(tokens).shape == (4, 1)
    assert FastText(9, 3, 30)(tokens).shape == (4, 3)


def test_the_papers_focused_neuron() -> None:
    net = focused_fasttext(400, 2, 100, mu=0.5, sigma=0.5)
    layer = net.focused_layers()["output"]
    assert (layer.in_features, layer.out_features) == (50, 1)
    assert (layer.mu.item(), layer.sigma.item()) == (0.5, 0.5)


def test_embeddings_start_as_in_keras() -> None:
    torch.manual_seed(0)
    weight = FastText(9, 2, 5000).embedding.weight
    assert isinstance(weight, nn.Parameter)
    assert 0.0499 < weight.abs().max() <= 0.05
