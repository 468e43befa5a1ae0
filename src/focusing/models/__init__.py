"""The networks of the paper, built from focused and plain layers."""

from focusing.models.cnn import CNN, focused_cnn
from focusing.models.dynamic_network import DynamicNetwork, build_network
from focusing.models.fasttext import FastText, focused_fasttext
from focusing.models.mlp import MLP, dense_mlp, focused_mlp
from focusing.models.network import LayerSummary, Network, Summary, summarize
from focusing.models.transfer import Transfer, dense_transfer, focused_transfer
from focusing.models.transformer import Transformer, focused_transformer

__all__ = [
    "CNN",
    "MLP",
    "DynamicNetwork",
    "FastText",
    "LayerSummary",
    "Network",
    "Summary",
    "Transfer",
    "Transformer",
    "build_network",
    "dense_mlp",
    "dense_transfer",
    "focused_cnn",
    "focused_fasttext",
    "focused_mlp",
    "focused_transfer",
    "focused_transformer",
    "summarize",
]
