"""The data sets: tensors that are made or read once and stay in memory."""

from focusing.data.audio import fsdd
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
    "reuters",
    "shifted",
    "synthetic",
]
