"""What data sets, models and experiments are called in print."""

from __future__ import annotations

DATA = {
    "mnist": "MNIST",
    "clt": "CLT",
    "shifted": "Shifted",
    "cifar10": "CIFAR-10",
    "fashion": "Fashion",
    "lfw": "LFW-Faces",
    "fsdd": "Spoken-Digits",
    "multi_domain": "Image+Sound",
    "catsdogs": "Cats & Dogs",
    "boston": "Boston",
    "reuters": "Reuters",
    "dna": "DNA",
    "imdb": "IMDB",
    "synthetic": "Synthetic",
}
MODELS = {
    "dense": "Dense",
    "fixed_s": "Fixed-s",
    "focus_c": "Focus-c",
    "focus_s": "Focus-s",
    "fixed_2d": "Fixed-2d",
    "focus_2d": "Focus-2d",
    "dynamic_dense": "Dynamic+Dns",
    "dynamic_2d": "Dynamic-2d",
    "stn_dense": "STN+Dns",
    "stn_2d": "STN-2d",
    "cnn_dense": "CNN+Dns",
    "cnn_focus": "CNN+Fcs",
    "vgg_dense": "VGG+Dns",
    "vgg_focus": "VGG+Fcs",
    "fasttext_dense": "FastText+Dns",
    "fasttext_focus": "FastText+Fcs",
}
PROTOCOLS = ("best_test", "holdout", "last")
SIZES = ("full", "short", "quick", "smoke")
VARIANTS = ("text", "author", "author2018")


def data_name(name: str) -> str:
    """A data set in print; one that is not the paper's keeps its name."""
    return DATA.get(name, name)


def data_order(name: str) -> tuple[int, str]:
    """Place of a data set among others: as in the paper, then by name."""
    return [*DATA, name].index(name), name


def model_name(name: str) -> str:
    """A model in print; one that is not the paper's keeps its name."""
    return MODELS.get(name, name)


def edition(size: str, variant: str) -> tuple[int, int, str, str]:
    """Order of tables of the same experiment: as published first."""
    sizes, variants = [*SIZES, size], [*VARIANTS, variant]
    return sizes.index(size), variants.index(variant), size, variant


def dense_twin(model: str) -> str:
    """The dense network that a focused one is compared with: ``cnn_dense`` of ``cnn_focus``."""
    family = model.partition("_")[0]
    return f"{family}_dense" if family in ("cnn", "vgg", "fasttext") else "dense"
