from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from focusing.data import catsdogs, lfw
from focusing.errors import UserError
from tests.unit.data import makers

RANDOM = {"split": "random", "test_share": 0.25}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    for number, (person, count) in enumerate([("Bo", 4), ("Al", 5), ("Cy", 2)]):
        for photo in range(1, count + 1):
            path = tmp_path / f"lfw/lfw/{person}/{person}_{photo:04}.jpg"
            makers.photograph(path, tint=60 * number)
    return tmp_path


def test_people_with_enough_photographs(people: Path) -> None:
    data = lfw(data_dir=people, min_faces=4, **RANDOM)
    assert data.train.inputs.shape == (6, 50, 37, 1)
    assert data.classes == 2  # Al is 0, Bo is 1
    labels = np.concatenate([data.train.targets, data.test.targets])
    assert np.bincount(labels).tolist() == [5, 4]
    assert lfw(data_dir=people, min_faces=2, **RANDOM).classes == 3


def test_faces_are_those_of_scikit_learn(people: Path) -> None:
    from sklearn.datasets._lfw import _load_imgs

    paths = sorted(map(str, (people / "lfw/lfw").glob("[AB]*/*.jpg")))
    expected = _load_imgs(paths, (slice(70, 195), slice(78, 172)), False, 0.4)
    data = lfw(data_dir=people, min_faces=4, preprocess="unit", split="kfold(9)", fold=0)
    faces = np.concatenate([data.train.inputs, data.test.inputs])[..., 0]
    for face in faces:
        assert np.abs(expected - face).max((1, 2)).min() < 1e-6


def test_stretched_faces_use_the_whole_range(people: Path) -> None:
    plain = lfw(data_dir=people, min_faces=4, **RANDOM)
    stretched = lfw(data_dir=people, min_faces=4, stretch=True, **RANDOM)
    assert plain.fingerprint != stretched.fingerprint
    assert stretched.train.inputs.mean() != plain.train.inputs.mean()


def test_a_quarter_is_for_testing_and_the_run_chooses_it(people: Path) -> None:
    options = {"min_faces": 4, "split": "random", "split_seed": None}
    first, other = (lfw(data_dir=people, run_seed=seed, **options) for seed in (0, 17))
    assert (len(first.train.targets), len(first.test.targets)) == (6, 3)
    assert first.fingerprint != other.fingerprint


def test_changes_in_training_are_part_of_the_fingerprint(people: Path) -> None:
    changes = ({}, {"flip": False}, {"flip": True}, {"shift": 0.1})
    prints = [lfw(data_dir=people, min_faces=4, augment=each, **RANDOM) for each in changes]
    assert [each.fingerprint == prints[0].fingerprint for each in prints] == [1, 1, 0, 0]


def test_there_is_no_official_split(people: Path) -> None:
    with pytest.raises(UserError, match="these files have none, use data.split=random"):
        lfw(data_dir=people, min_faces=4)


def test_a_truncated_photograph_stops_this_run_and_the_next(people: Path) -> None:
    path = people / "lfw/lfw/Bo/Bo_0002.jpg"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(UserError, match=r"Bo_0002.jpg is damaged .* now Bo_0002\.jpg\.corrupt"):
        lfw(data_dir=people, min_faces=3, **RANDOM)
    with pytest.raises(UserError, match="Bo_0002.jpg.corrupt was damaged: put a good copy"):
        lfw(data_dir=people, min_faces=3, **RANDOM)
    path.with_name("Bo_0002.jpg.corrupt").unlink()
    makers.photograph(path)
    assert lfw(data_dir=people, min_faces=3, **RANDOM).classes == 2


def test_too_few_people(people: Path) -> None:
    with pytest.raises(UserError, match="data.min_faces=-1 must be at least 1"):
        lfw(data_dir=people, min_faces=-1, **RANDOM)
    with pytest.raises(UserError, match="data.min_faces=5 leaves 1 people"):
        lfw(data_dir=people, min_faces=5, **RANDOM)


@pytest.mark.parametrize(
    "pattern", ["cats-dogs/train/{}.{}.jpg", "cats-dogs/PetImages/{}/{}.jpg", "train/{}.{}.jpg"]
)
def test_cats_and_dogs_by_either_name(tmp_path: Path, pattern: str) -> None:
    title = "PetImages" in pattern
    for number in range(8):
        for kind in ("cat", "dog"):
            name = pattern.format(kind.title() if title else kind, number)
            makers.photograph(tmp_path / name, (60, 40), tint=255 * (kind == "dog"))
    if title:
        (tmp_path / "cats-dogs/PetImages/Cat/666.jpg").touch()  # as in Microsoft's archive
    data = catsdogs(data_dir=tmp_path, size=20, preprocess="unit", **RANDOM)
    assert data.train.inputs.shape == (12, 20, 20, 3)
    assert np.bincount(data.test.targets).tolist() == [2, 2]
    blue = data.train.inputs[..., 2].mean((1, 2))
    np.testing.assert_allclose(blue, data.train.targets, atol=0.05)


def test_grey_and_indexed_pictures_become_colours(tmp_path: Path) -> None:
    for number, mode in enumerate(["L", "P", "RGB", "CMYK"]):
        for kind in ("cat", "dog"):
            path = tmp_path / f"train/{kind}.{number}.jpg"
            path.parent.mkdir(exist_ok=True)
            picture = Image.new(mode, (30, 30), 100 if mode in "LP" else None)
            picture.save(path, format="GIF" if mode == "P" else "JPEG")
    assert catsdogs(data_dir=tmp_path, size=8, **RANDOM).train.inputs.shape == (6, 8, 8, 3)


@pytest.mark.parametrize(("there", "absent"), [("cat", "dogs"), ("dog", "cats")])
def test_one_kind_alone_is_refused(tmp_path: Path, there: str, absent: str) -> None:
    for number in range(4):
        makers.photograph(tmp_path / f"train/{there}.{number}.jpg", (30, 30))
    with pytest.raises(UserError, match=f"train holds no pictures of {absent}"):
        catsdogs(data_dir=tmp_path, **RANDOM)


def test_a_folder_without_pictures(tmp_path: Path) -> None:
    (tmp_path / "cats-dogs/train").mkdir(parents=True)
    with pytest.raises(UserError, match="holds no pictures of cats"):
        catsdogs(data_dir=tmp_path, **RANDOM)


def test_impossible_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="interpolation=cubic is not one of nearest, bilinear"):
        catsdogs(data_dir=tmp_path, interpolation="cubic", **RANDOM)


def test_a_large_set_stays_as_bytes_and_is_prepared_by_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        for kind in ("cat", "dog"):
            makers.photograph(tmp_path / f"train/{kind}.{number}.jpg", (30, 30))
    options = {"data_dir": tmp_path, "size": 8, "preprocess": "pixel_mean", **RANDOM}
    ready = catsdogs(**options)
    monkeypatch.setattr("focusing.data.dataset.LARGE", 100)
    bytes_ = catsdogs(**options)
    assert ready.prepare is None
    assert bytes_.train.inputs.element_size() == 1
    assert bytes_.prepare is not None
    np.testing.assert_array_equal(bytes_.prepare(bytes_.test.inputs), ready.test.inputs)
    assert bytes_.fingerprint == ready.fingerprint
