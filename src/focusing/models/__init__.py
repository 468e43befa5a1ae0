"""The networks of the paper, built from focused and plain layers."""

from focusing.models.mlp import MLP, dense_mlp, focused_mlp

__all__ = ["MLP", "dense_mlp", "focused_mlp"]
