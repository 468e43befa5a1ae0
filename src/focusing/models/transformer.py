"""A small transformer for images and texts, with focused or plain attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from focusing.config import AtLeastOne, Share
from focusing.models.hidden_layers import dense_layer, image_shape
from focusing.models.network import MAX_LAYERS, Inputs, Network, channels_first
from focusing.nn import Dropout, FocusedAttention


class Transformer(Network):
    r"""Embedded tokens with learnt positions, transformer blocks, mean pooling, a dense output.

    Tokens are the words of a text, or the patches of an image. For two classes there is one output,
    the logit of the second class.

    Args:
        inputs: (height, width, channels) or (height, width); for texts, the number of tokens.
        outputs: number of classes.
        vocabulary: number of different words; None for images.
        width: size of a token's embedding.
        heads: number of attention heads.
        blocks: number of blocks.
        hidden: neurons of the MLP in each block.
        patch: height and width of a patch; it must divide those of the image.
        dropout: dropout rate after attention and in the MLP.
        focus: options of ``FocusedAttention``; None: ``nn.MultiheadAttention``.

    Shape:
        - Input: (N, height, width, channels), (N, height, width), or integers (N, tokens).
        - Output: (N, outputs), (N, 1) for two classes.
    """

    def __init__(
        self,
        inputs: Inputs,
        outputs: int,
        vocabulary: int | None = None,
        *,
        width: AtLeastOne = 64,
        heads: AtLeastOne = 4,
        blocks: Annotated[int, Ge(1), Le(MAX_LAYERS)] = 2,
        hidden: AtLeastOne = 128,
        patch: AtLeastOne = 6,
        dropout: Share = 0.1,
        focus: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(inputs, outputs, [hidden], locals())
        self.vocabulary = vocabulary
        if width % heads:
            raise ValueError(f"width={width} is not a multiple of heads={heads}.")
        self.embedding: nn.Module
        if vocabulary:
            if len(self.shape) != 1:
                raise ValueError(f"A text is a row of words, but a sample has shape {self.shape}.")
            topology: tuple[int, ...] = self.shape
            self.embedding = nn.Embedding(vocabulary, width)
            nn.init.normal_(self.embedding.weight, std=0.02)
        else:
            height, across, channels = image_shape(self.shape, "A transformer without words")
            if height % patch or across % patch:
                raise ValueError(f"patch={patch} does not divide the images, {height}x{across}.")
            topology = (height // patch, across // patch)
            self.embedding = nn.Conv2d(channels, width, patch, stride=patch)
        self.position = nn.Parameter(torch.zeros(math.prod(topology), width))
        nn.init.normal_(self.position, std=0.02)
        self.blocks = nn.ModuleList()
        for _ in range(blocks):
            attention: nn.MultiheadAttention = (
                nn.MultiheadAttention(width, heads, batch_first=True)
                if focus is None
                else FocusedAttention(width, heads, batch_first=True, topology=topology, **focus)
            )
            self.blocks.append(Block(attention, hidden, dropout))
        self.norm = nn.LayerNorm(width)
        self.output = dense_layer(width, 1 if outputs == 2 else outputs)

    def forward(self, input: Tensor) -> Tensor:
        """Map images or tokens to (N, outputs)."""
        if self.vocabulary:
            tokens = self.embedding(input)
        else:
            tokens = self.embedding(channels_first(input)).flatten(2).transpose(1, 2)
        tokens = tokens + self.position
        for block in self.blocks:
            tokens = block(tokens)
        return self.output(self.norm(tokens).mean(1))  # type: ignore[no-any-return]


class Block(nn.Module):
    """A pre-norm transformer block: attention and an MLP, both residual."""

    def __init__(self, attention: nn.MultiheadAttention, hidden: int, dropout: float) -> None:
        super().__init__()
        width = attention.embed_dim
        self.norm1, self.attention = nn.LayerNorm(width), attention
        self.norm2, self.expand = nn.LayerNorm(width), nn.Linear(width, hidden)
        self.contract = nn.Linear(hidden, width)
        self.dropout, self.gelu = Dropout(dropout), nn.GELU()

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (N, tokens, width) to the same shape."""
        normed = self.norm1(tokens)
        attended, _ = self.attention(normed, normed, normed, need_weights=False)
        tokens = tokens + self.dropout(attended)
        hidden = self.dropout(self.gelu(self.expand(self.norm2(tokens))))
        return tokens + self.dropout(self.contract(hidden))  # type: ignore[no-any-return]


def focused_transformer(
    inputs: Inputs,
    outputs: int,
    vocabulary: int | None = None,
    *,
    width: int = 64,
    heads: int = 4,
    blocks: int = 2,
    hidden: int = 128,
    patch: int = 6,
    dropout: float = 0.1,
    mu: float = 0.0,
    sigma: Any = (0.05, 0.5),
    train_mu: bool = True,
    train_sigma: bool = True,
) -> Transformer:
    """A :class:`Transformer` with options of ``FocusedAttention`` for its heads."""
    arguments = locals()
    options = ("mu", "sigma", "train_mu", "train_sigma")
    focus = {name: arguments.pop(name) for name in options}
    return Transformer(**arguments, focus=focus)
