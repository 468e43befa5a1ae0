"""MNIST, Fashion-MNIST, CIFAR-10, faces, cats and dogs, from small files in the real formats."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from focusing.data import catsdogs, cifar10, clt, fashion, lfw, mnist
from focusing.data.image_sets import resolve_missing
from focusing.errors import UserError
from tests.unit.data import makers
from tests.unit.data.makers import DIGIT_FILES

RANDOM = {"split": "random", "test_share": 0.25}


@pytest.mark.parametrize(("load", "folder"), [(mnist, "mnist"), (fashion, "fashion-mnist")])
def test_idx_files(tmp_path: Path, load, folder: str) -> None:
    arrays = makers.digits(tmp_path / folder)
    data = load(data_dir=tmp_path)
    np.testing.assert_array_equal(data.train.inputs[..., 0], arrays["train-images"])
    np.testing.assert_array_equal(data.test.targets, arrays["t10k-labels"])
    assert data.train.inputs.shape == (60, 28, 28, 1)
    assert (data.classes, data.source) == (10, "local")


def test_decompressed_idx_files_in_torchvisions_folder(tmp_path: Path) -> None:
    makers.digits(tmp_path / "packed")
    (tmp_path / "MNIST/raw").mkdir(parents=True)
    for name in DIGIT_FILES:
        content = gzip.decompress((tmp_path / "packed" / name).read_bytes())
        (tmp_path / "MNIST/raw" / name.removesuffix(".gz")).write_bytes(content)
    assert mnist(data_dir=tmp_path).train.inputs.shape == (60, 28, 28, 1)


@pytest.mark.parametrize(
    ("number", "content", "sentence", "gone"),
    [
        (0, b"<html>not found</html>", "it is not an idx file of bytes", True),
        (1, makers.idx(np.zeros((60, 1), np.uint8)), "train-labels.* is damaged", True),
        (1, makers.idx(np.full(60, 77)), "it has a class 77", True),
        # It is unknown which of the two is wrong, so neither is renamed.
        (1, makers.idx(np.zeros(59)), r"do not belong together \(59 labels for 60 images", False),
    ],
)
def test_an_idx_file_with_wrong_content(
    tmp_path: Path, number: int, content: bytes, sentence: str, gone: bool
) -> None:
    makers.digits(tmp_path / "mnist")
    path = tmp_path / "mnist" / DIGIT_FILES[number]
    path.write_bytes(gzip.compress(content))
    with pytest.raises(UserError, match=sentence):
        mnist(data_dir=tmp_path)
    assert path.exists() is not gone


@pytest.mark.parametrize("fake", [True, False])
def test_pad_adds_a_black_border(tmp_path: Path, fake: bool) -> None:
    makers.digits(tmp_path / "mnist")
    plain = mnist(data_dir=tmp_path, fake=fake)
    data = mnist(data_dir=tmp_path, fake=fake, pad=4)
    assert data.train.inputs.shape[1:] == (36, 36, 1)
    assert data.train.inputs[:, 4:-4, 4:-4].equal(plain.train.inputs)
    assert data.test.inputs.sum() == plain.test.inputs.sum()
    author = mnist(data_dir=tmp_path, fake=fake, pad=1, preprocess="author")
    assert author.test.inputs[:, 0].eq(-2).all()


@pytest.mark.parametrize("folder", ["cifar10", "."])
def test_cifar_batches(tmp_path: Path, folder: str) -> None:
    images = makers.cifar(tmp_path / folder / "cifar-10-batches-py")
    data = cifar10(data_dir=tmp_path)
    assert data.train.inputs.shape == (100, 32, 32, 3)
    np.testing.assert_array_equal(data.train.inputs, images[:100])
    np.testing.assert_array_equal(data.test.inputs, images[100:])
    # Flattened, the colours of a pixel are neighbours.
    assert data.train.inputs[0].flatten()[(5 * 32 + 7) * 3 + 1] == images[0, 5, 7, 1]


def resolved(tmp_path: Path, on_missing: str, *, strict: bool = False, **more) -> str:
    options = {"on_missing": on_missing, "fake": False, **more}
    resolve_missing(options, tmp_path, strict=strict)
    return options["on_missing"]


@pytest.mark.usefixtures("offline")
def test_a_single_run_falls_back_to_the_sample_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resolved(tmp_path, "auto") == "sample"
    warning = capsys.readouterr().err
    assert "Warning: 5000 digits in place of 70 000." in warning
    assert "focusing data get mnist" in warning
    assert str(tmp_path / "mnist") in warning.replace("\n", "")


@pytest.mark.usefixtures("offline")
def test_a_sweep_uses_the_sample_only_on_request(tmp_path: Path) -> None:
    assert resolved(tmp_path, "auto", strict=True) == "error"
    assert resolved(tmp_path, "error", strict=True) == "error"
    assert resolved(tmp_path, "sample", strict=True) == "sample"
    with pytest.raises(UserError, match="MNIST digits: train-images-idx3-ubyte.gz, .* not found"):
        mnist(data_dir=tmp_path, on_missing="error")


def test_the_sample_is_not_used_when_it_is_not_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resolved(tmp_path, "auto", fake=True) == "error"
    assert resolved(tmp_path, "auto", variant="small") == "error"
    options = {"words": 3}
    resolve_missing(options, tmp_path, strict=False)
    assert options == {"words": 3}
    makers.digits(tmp_path / "mnist")
    assert resolved(tmp_path, "auto") == resolved(tmp_path, "sample") == "error"
    assert mnist(data_dir=tmp_path, on_missing="sample").source == "local"
    assert not capsys.readouterr().err
    with pytest.raises(UserError, match="data.on_missing=ask is not one of auto, sample, error"):
        resolved(tmp_path, "ask")


def test_the_sample_is_real_digits() -> None:
    data = mnist(data_dir="nowhere", on_missing="sample")
    assert data.source == "sample-5k"
    assert data.train.inputs.shape == (4000, 28, 28, 1)
    assert np.bincount(data.train.targets).tolist() == [400] * 10
    assert np.bincount(data.test.targets).tolist() == [100] * 10
    assert 25 < data.train.inputs.mean() < 45  # of 255; all MNIST has 33
    clutter = clt(data_dir="nowhere", on_missing="sample", train=50, test=20)
    assert clutter.source == "generated, sample-5k"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    makers.people(tmp_path / "lfw/lfw/Bo")
    return tmp_path


def test_people_with_enough_photographs(people: Path) -> None:
    data = lfw(data_dir=people, min_faces=4, split="random")
    assert data.train.inputs.shape == (6, 50, 37, 1)  # a quarter tests
    assert data.labels == ("Al", "Bo")
    labels = np.concatenate([data.train.targets, data.test.targets])
    assert np.bincount(labels).tolist() == [5, 4]
    assert lfw(data_dir=people, min_faces=2, **RANDOM).classes == 3
    with pytest.raises(UserError, match="data.min_faces=5 leaves 1 people"):
        lfw(data_dir=people, min_faces=5, **RANDOM)
    stretched = lfw(data_dir=people, min_faces=4, stretch=True, split="random")
    assert stretched.train.inputs.mean() != data.train.inputs.mean()


def test_faces_match_scikit_learn(people: Path) -> None:
    from sklearn.datasets._lfw import _load_imgs

    paths = sorted(map(str, (people / "lfw/lfw").glob("[AB]*/*.jpg")))
    expected = _load_imgs(paths, (slice(70, 195), slice(78, 172)), False, 0.4)
    data = lfw(data_dir=people, min_faces=4, preprocess="unit", split="kfold(9)", fold=0)
    faces = np.concatenate([data.train.inputs, data.test.inputs])[..., 0]
    for face in faces:
        assert np.abs(expected - face).max((1, 2)).min() < 1e-6


@pytest.mark.parametrize(
    "pattern", ["cats-dogs/train/{}.{}.jpg", "cats-dogs/PetImages/{}/{}.jpg", "train/{}.{}.jpg"]
)
def test_cats_and_dogs_in_all_folder_layouts(tmp_path: Path, pattern: str) -> None:
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


def test_images_of_all_modes_become_rgb(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for number, mode in enumerate(["L", "P", "RGB", "CMYK"]):
        for kind in ("cat", "dog"):
            picture = Image.new(mode, (30, 30), 100 if mode in "LP" else None)
            path = tmp_path / f"train/{kind}.{number}.jpg"
            picture.save(path, format="GIF" if mode == "P" else "JPEG")
    assert catsdogs(data_dir=tmp_path, size=8, **RANDOM).train.inputs.shape == (6, 8, 8, 3)


@pytest.mark.parametrize(("kind", "absent"), [("cat", "dogs"), ("dog", "cats"), ("", "cats")])
def test_images_of_one_class_only_are_refused(tmp_path: Path, kind: str, absent: str) -> None:
    for number in range(2):
        makers.photograph(tmp_path / f"train/{kind}.{number}.jpg", (30, 30))
    with pytest.raises(UserError, match=f"train holds no pictures of {absent}"):
        catsdogs(data_dir=tmp_path, **RANDOM)
