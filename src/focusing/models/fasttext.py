"""The paper's network for texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from focusing.config import AtLeastOne
from focusing.models.hidden_layers import classifier_layer, focused
from focusing.models.network import Inputs, Network


class FastText(Network):
    r"""An embedding, its mean over the text, and a focused or dense output.

    For two classes there is one output, the logit of the second class. The mean includes padding
    tokens, as in Keras' ``GlobalAveragePooling1D``.

    Args:
        inputs: number of tokens of a text.
        outputs: number of classes.
        vocabulary: number of different tokens.
        embedding: size of the embedding of a token.
        focus: options of ``FocusedLinear`` for the output; None makes it dense.

    Shape:
        - Input: (N, tokens), integers.
        - Output: (N, 1) for two classes, else (N, outputs).
    """

    width_option = "embedding"

    def __init__(
        self,
        inputs: Inputs,
        outputs: int,
        vocabulary: int,
        *,
        embedding: AtLeastOne = 50,
        focus: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(inputs, outputs, [embedding], locals())
        self.vocabulary = vocabulary
        self.embedding = nn.EmbeddingBag(vocabulary, embedding, mode="mean")
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)  # as Keras
        self.output = classifier_layer([embedding], 1 if outputs == 2 else outputs, focus)

    def forward(self, input: Tensor) -> Tensor:
        """Map tokens (N, T) to (N, outputs)."""
        if torch.compiler.is_compiling():  # also when exporting: ONNX has no EmbeddingBag
            mean = functional.embedding(input, self.embedding.weight).mean(1)
        else:
            mean = self.embedding(input)
        return self.output(mean)  # type: ignore[no-any-return]


focused_fasttext = focused(FastText)
