"""Data sets: options, fake samples and fingerprints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from focusing.compose import config_dir
from focusing.data import (
    boston,
    catsdogs,
    cifar10,
    clt,
    dna,
    fsdd,
    hold_out,
    imdb,
    lfw,
    mnist,
    multi_domain,
    reuters,
    synthetic,
)
from focusing.data.commands import read_data
from focusing.errors import UserError
from tests.unit.data import makers

SHAPES = {
    "synthetic": ((40,), 2),
    "mnist": ((28, 28, 1), 10),
    "clt": ((60, 60, 1), 10),
    "shifted": ((60, 60, 1), 10),
    "cifar10": ((32, 32, 3), 10),
    "fashion": ((28, 28, 1), 10),
    "lfw": ((50, 37, 1), 62),
    "fsdd": ((20, 40, 1), 10),
    "multi_domain": ((56, 28, 1), 10),
    "boston": ((13,), 0),
    "reuters": ((1000,), 46),
    "dna": ((180,), 3),
    "imdb": ((400,), 2),
    "catsdogs": ((125, 125, 3), 2),
}


def test_every_data_set_has_a_config() -> None:
    assert {path.stem for path in (Path(config_dir()) / "data").glob("*.yaml")} == {*SHAPES}


@pytest.mark.parametrize("name", SHAPES)
def test_fake_samples_have_the_right_shape(name: str, tmp_path: Path) -> None:
    data = read_data(name, tmp_path / "nothing", ["data.fake=true"])
    shape, classes = SHAPES[name]
    assert data.source == "fake"
    assert data.train.inputs.shape[1:] == data.test.inputs.shape[1:] == shape
    assert data.classes == classes
    for split in (data.train, data.test):
        if classes:
            assert set(split.targets.tolist()) == set(range(classes))
        else:
            assert split.targets.dtype == torch.float32
    assert data.train.inputs.dtype == (torch.int32 if name == "imdb" else torch.float32)
    assert bool(data.vocabulary) == (name == "imdb")


def test_fake_samples_are_reproducible_and_have_the_real_vocabulary() -> None:
    first, second = mnist(fake=True), mnist(fake=True)
    assert torch.equal(first.train.inputs, second.train.inputs)
    assert first.fingerprint == second.fingerprint
    tokens = [imdb(fake=True, ngrams=ngrams).vocabulary for ngrams in (1, 2, 3)]
    assert tokens == pytest.approx([20_000, 1_205_229, 4_682_966], rel=0.01)


@pytest.mark.parametrize(("split", "count"), [("random", 103), ("official", 128), ("kfold10", 52)])
def test_the_default_test_share_only_affects_random_splits(split: str, count: int) -> None:
    assert len(dna(split=split, fake=True).test.targets) == count


def test_the_fingerprint_covers_content_split_and_preprocessing(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")
    options = ({}, {"preprocess": "unit"}, {"limit_train": 9}, {"split": "random"}, {"pad": 1})
    prints = [mnist(data_dir=tmp_path, **chosen).fingerprint for chosen in options]
    assert prints[0] == mnist(data_dir=tmp_path).fingerprint
    makers.digits(tmp_path / "mnist")
    assert len({*prints, mnist(data_dir=tmp_path).fingerprint}) == 6


def test_the_fingerprint_covers_augmentation() -> None:
    changes = ({}, {"flip": False}, {"flip": True}, {"shift": 0.1})
    options = {"fake": True, "split": "random", "test_share": 0.25}
    prints = [lfw(augment=change, **options).fingerprint for change in changes]
    assert [fingerprint == prints[0] for fingerprint in prints] == [True, True, False, False]


def test_peek_gives_source_and_fingerprint(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")
    options = {"data_dir": tmp_path, "preprocess": "standard", "split": "random", "limit_test": 3}
    data, peeked = mnist(**options), mnist(**options, peek=True)
    assert (peeked.source, peeked.fingerprint) == (data.source, data.fingerprint)
    assert peeked.train.inputs.dtype == torch.uint8  # nothing was computed


def test_statistics_leave_out_the_validation_split() -> None:
    options = {"fake": True, "preprocess": "standard", "run_seed": 3}
    data = boston(holdout=0.25, **options)
    kept, held = hold_out(data.train, 0.25, seed=3, classes=0)
    np.testing.assert_allclose(kept.inputs.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(kept.inputs.std(0, correction=0), 1, atol=1e-5)
    assert held.inputs.mean(0).abs().max() > 0.01
    assert data.fingerprint != boston(**options).fingerprint


def test_a_large_data_set_is_prepared_per_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"fake": True, "size": 8, "preprocess": "pixel_mean", "split": "random"}
    ready = catsdogs(**options)
    monkeypatch.setattr("focusing.data.dataset.MAX_PREPARED_BYTES", 100)
    raw = catsdogs(**options)
    assert ready.prepare is None
    assert raw.train.inputs.element_size() == 1
    assert raw.prepare is not None
    np.testing.assert_array_equal(raw.prepare(raw.test.inputs), ready.test.inputs)
    assert raw.fingerprint == ready.fingerprint


REFUSED = [
    *(
        (synthetic, options, sentence)
        for options, sentence in (
            ({"generator": "moons"}, "generator=moons is not one of"),
            ({"noise_position": "top"}, "noise_position=top"),
            ({"noise_kind": "pink"}, "noise_kind=pink"),
            ({"fake": False, "test_share": 1.0}, "samples leaves no training or no test data"),
            ({"limit_test": 0}, "data.limit_test=0 must be at least 1"),
            (
                {"fake": False, "generator": "classification", "informative": 1, "classes": 4},
                "data: n_classes",
            ),
        )
    ),
    *(
        (clt, {"variant": "small", option: 28}, f"data.{option}=28 is for data.variant=generated")
        for option in ("size", "patches", "patch_size", "seed", "train", "test")
    ),
    (clt, {"size": 20}, "data.size=20 must be at least 28"),
    (clt, {"patch_size": 29}, "data.patch_size=29 must be at most 28"),
    (clt, {"patches": -1}, "data.patches=-1 must be at least 0"),
    (clt, {"variant": "big"}, "data.variant=big is not one of generated, original, small"),
    (mnist, {"pad": -1}, "data.pad=-1 must be at least 0"),
    (mnist, {"preprocess": "zscore"}, "data.preprocess=zscore is not one of author, unit"),
    (mnist, {"augment": {"shift": 2}}, "data.augment.shift=2 must be at most 1"),
    (mnist, {"augment": {"shear": 90}}, "data.augment.shear=90 must be less than 90"),
    (boston, {"preprocess": "unit"}, "preprocess=unit is for values from 0 to a known largest"),
    (lfw, {}, "this data set has none, use data.split=random"),
    (lfw, {"min_faces": -1}, "data.min_faces=-1 must be at least 1"),
    (catsdogs, {"interpolation": "cubic"}, "interpolation=cubic is not one of nearest, bilinear"),
    (fsdd, {"coefficients": 50}, "coefficients=50 must be at most bands=40"),
    (fsdd, {"hop": 0}, "hop=0 must be at least 1"),
    (fsdd, {"window": 1}, "data.window=1 is too short for data.bands=40"),
    (multi_domain, {"split": "random"}, "data.split=random: pairs share recordings"),
    (reuters, {"words": 3}, "words=3 must be at least 4"),
    (imdb, {"ngrams": 4}, "ngrams=4 must be at most 3"),
    (imdb, {"length": 0}, "length=0 must be at least 1"),
    (
        imdb,
        {"preprocess": "unit"},
        "data=imdb consists of tokens, which cannot be scaled: use none",
    ),
    (imdb, {"ngrams": 2, "split": "kfold5"}, "ngrams=2 are those of the official training data"),
]


@pytest.mark.parametrize(("load", "options", "sentence"), REFUSED)
def test_impossible_options_are_refused(load, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        load(**{"fake": True, **options})


DAMAGED = {  # maker of the files, file to damage, and how to read them
    "mnist": (makers.digits, "mnist/train-images-idx3-ubyte.gz", mnist, {}),
    "mnist labels": (makers.digits, "mnist/t10k-labels-idx1-ubyte.gz", mnist, {}),
    "cifar10": (makers.cifar, "cifar10/cifar-10-batches-py/data_batch_3", cifar10, {}),
    "boston": (makers.housing, "boston/housing.data", boston, {}),
    "reuters": (makers.newswires, "reuters/reuters.npz", reuters, {}),
    "fsdd": (makers.recordings, "fsdd/recordings/1_ann_4.wav", fsdd, {"speakers": ["ann"]}),
    "lfw": (makers.people, "lfw/lfw/Bo/Bo_0002.jpg", lfw, {"min_faces": 3, "split": "random"}),
}


@pytest.mark.parametrize("keep", [0, 20, 0.5, -100])
@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.usefixtures("offline")
def test_a_truncated_file_stops_this_run_and_the_next(
    tmp_path: Path, name: str, keep: float
) -> None:
    make, file, load, options = DAMAGED[name]
    path = tmp_path / file
    make(path.parent)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    aside = rf"{path.name} is damaged \(.*\): it is now {path.name}\.corrupt; put"
    with pytest.raises(UserError, match=aside):
        load(data_dir=tmp_path, **options)
    assert not path.exists()
    gone = "not found|No such file|was damaged: put a good copy"
    with pytest.raises((UserError, FileNotFoundError), match=gone):
        load(data_dir=tmp_path, **options)
    path.with_name(f"{path.name}.corrupt").unlink()
    path.write_bytes(content)
    assert load(data_dir=tmp_path, **options).source == "local"
