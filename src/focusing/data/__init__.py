"""The data sets: tensors that are read or generated once and stay in memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focusing.data.audio import fsdd, multi_domain
    from focusing.data.batches import Batches
    from focusing.data.dataset import DataSet
    from focusing.data.generated import clt, shifted, synthetic
    from focusing.data.image_sets import catsdogs, cifar10, fashion, lfw, mnist
    from focusing.data.splits import Split, hold_out
    from focusing.data.tabular import boston, dna
    from focusing.data.text import imdb, reuters

__all__ = [
    "Batches",
    "DataSet",
    "Split",
    "boston",
    "catsdogs",
    "cifar10",
    "clt",
    "dna",
    "fashion",
    "fsdd",
    "hold_out",
    "imdb",
    "lfw",
    "mnist",
    "multi_domain",
    "reuters",
    "shifted",
    "synthetic",
]

_HOMES = {
    "audio": ["fsdd", "multi_domain"],
    "batches": ["Batches"],
    "dataset": ["DataSet"],
    "generated": ["clt", "shifted", "synthetic"],
    "image_sets": ["catsdogs", "cifar10", "fashion", "lfw", "mnist"],
    "splits": ["Split", "hold_out"],
    "tabular": ["boston", "dna"],
    "text": ["imdb", "reuters"],
}


def __getattr__(name: str) -> Any:
    """Import lazily: `focusing data list` should not have to wait for torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
