"""Printed names and the order of data sets, models, options and editions."""

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
    "focus_nd": "Focus-nd",
    "fields_2d": "Fields-2d",
    "anchored_2d": "Anchored-2d",
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
    "transformer_dense": "Transformer",
    "transformer_focus": "Transformer+Fcs",
}
PROTOCOLS = ("best_test", "holdout", "last")
SIZES = ("full", "short", "quick", "smoke")
VARIANTS = ("text", "author", "author2018")
SMALL_SIZES = ("quick", "smoke")
"""Sizes of trial runs: their tables and figures go to an appendix."""
MEANT_TO_FAIL = ("stuck", "rescue")
"""Experiments that show where focus fails; they do not count as comparisons."""
CLASSES = {
    data: tuple(names.split())
    for data, names in {
        "cifar10": "plane car bird cat deer dog frog horse ship truck",
        "fashion": "T-shirt trousers pullover dress coat sandal shirt sneaker bag boot",
        "catsdogs": "cat dog",
    }.items()
}
"""Class names of data sets whose classes are not digits."""
OPTION_WORDS: dict[str, str | dict[str, str]] = {
    "max_epochs": "{} epochs",
    "limit_train": "{} training samples",
    "limit_test": "{} test samples",
    "drop_last": {"false": "last batch kept", "true": "last batch dropped"},
    "batch_norm": {"true": "batch normalisation", "false": "no batch normalisation"},
    "dropout": {"[]": "no dropout"},
    "ngrams": {"1": "single words", "2": "words and pairs"},
    "data.seed": {"varied": "new data in each run"},
    "noise": {"image": "image is noise", "audio": "sound is noise", "none": "no noise"},
    "hidden": "hidden layers {}",
    "sigma_l2": "penalty on σ² {}",
    "mu_repulsion": "repulsion of centres {}",
    "lr_mu": "learning rate of μ {}",
    "lr_sigma": "of σ {}",
    "lr_dynamic": "rate of windows {}",
    "train_mu": {"false": "fixed foci", "true": "trained foci"},
    "train_centre": {"false": "saliency untrained", "true": "saliency trained"},
    "centre": {
        "static": "windows stay",
        "saliency": "windows move",
        "regressed": "windows move, regressed",
    },
    "kind": {"stn": "spatial transformer"},
    "extent": "windows from {} of the frame",
    "filters": "{} filters",
    "anneal_from": "σ first {} times as wide",
    "anneal_epochs": "annealed over {} epochs",
    "holdout": "validation split {}",
}
"""Option -> its words, by value or with ``{}`` for the value. The key is the whole name of the
option, or the last part of it."""
EDITION_WORDS = {"short": "short runs", "quick": "quick runs", "smoke": "smoke tests",
                 "author": "author's settings", "author2018": "author's settings of 2018",
                 "full": "", "text": "", "unstated": ""}  # fmt: skip
"""Size or variant -> its words; none for the paper's own."""


def option_words(option: str) -> str:
    """Describe an override in words: ``trainer.max_epochs=60`` becomes "60 epochs"."""
    name, sign, value = option.lstrip("+").partition("=")
    last = name.rpartition(".")[2]
    words = OPTION_WORDS.get(name, OPTION_WORDS.get(last))
    if not sign:
        return option
    if isinstance(words, dict):
        words = words.get(value)
    value = value.removesuffix(".0")
    if words is not None:
        return words.format(value)
    shown = "data seed" if name == "data.seed" else last.replace("_", " ")
    return f"{shown} {value}"


def label_words(label: str) -> str:
    """Describe a label in words; some of its comma-separated parts are overrides."""
    return ", ".join(map(option_words, label.split(", ")))


def edition_words(size: str, variant: str) -> list[str]:
    """Words for a size and variant that are not the paper's."""
    return [words for name in (size, variant) if (words := EDITION_WORDS.get(name, name))]


def plural(count: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def class_name(data: str, label: int) -> str:
    """Printed name of a class."""
    names = CLASSES.get(data, ())
    return names[label] if label < len(names) else str(label)


def data_name(name: str) -> str:
    """Printed name of a data set; the name itself if it is not one of the paper's."""
    return DATA.get(name, name)


def data_order(name: str) -> tuple[int, str]:
    """Sort key of a data set: the paper's order, then by name."""
    return [*DATA, name].index(name), name


def model_name(name: str) -> str:
    """Printed name of a model; the name itself if it is not known here."""
    return MODELS.get(name, name)


def edition_order(size: str, variant: str) -> tuple[int, int, str, str]:
    """Sort key of a size and variant: as published first."""
    sizes, variants = [*SIZES, size], [*VARIANTS, variant]
    return sizes.index(size), variants.index(variant), size, variant


def dense_twin(model: str) -> str:
    """Name of the dense network that a model is compared with: ``cnn_dense`` for ``cnn_focus``."""
    family = model.partition("_")[0]
    return f"{family}_dense" if family in ("cnn", "vgg", "fasttext", "transformer") else "dense"
