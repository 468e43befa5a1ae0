"""The data sets: tensors that are made or read once and stay in memory."""

from focusing.data.audio import fsdd
from focusing.data.batches import Batches
from focusing.data.clutter import clt
from focusing.data.dataset import DataSet, Split
from focusing.data.images import catsdogs, lfw
from focusing.data.pictures import cifar10, fashion, mnist
from focusing.data.split import hold_out
from focusing.data.synthetic import synthetic
from focusing.data.tables import boston, dna
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
    "synthetic",
]
