import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from focusing.data import cifar10, fashion, mnist
from focusing.data.decoders import DamagedError, read_digits
from focusing.errors import UserError
from tests.unit.data import makers

NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


@pytest.mark.parametrize(("load", "folder"), [(mnist, "mnist"), (fashion, "fashion-mnist")])
def test_idx_files(tmp_path: Path, load, folder: str) -> None:
    arrays = makers.digits(tmp_path / folder)
    data = load(data_dir=tmp_path)
    np.testing.assert_array_equal(data.train.inputs[..., 0], arrays["train-images"])
    np.testing.assert_array_equal(data.test.targets, arrays["t10k-labels"])
    assert data.train.inputs.shape == (60, 28, 28, 1)
    assert (data.classes, data.source) == (10, "local")


def test_unpacked_idx_files_and_torchvision_folders(tmp_path: Path) -> None:
    makers.digits(tmp_path / "packed")
    (tmp_path / "MNIST/raw").mkdir(parents=True)
    for name in NAMES:
        content = gzip.decompress((tmp_path / "packed" / name).read_bytes())
        (tmp_path / "MNIST/raw" / name.removesuffix(".gz")).write_bytes(content)
    makers.digits(tmp_path / "mnist")
    shutil.rmtree(tmp_path / "mnist")
    assert mnist(data_dir=tmp_path).train.inputs.shape == (60, 28, 28, 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("keep", [0, 5, 0.5, -1])
def test_a_truncated_idx_file_is_put_aside(tmp_path: Path, name: str, keep: float) -> None:
    makers.digits(tmp_path / "mnist")
    path = tmp_path / "mnist" / name
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(
        UserError, match=rf"{name} is damaged \(.*\): it is now {name}\.corrupt; run"
    ):
        mnist(data_dir=tmp_path)
    assert not path.exists()
    assert path.with_name(f"{name}.corrupt").exists()


def test_labels_are_a_list(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")
    table = gzip.compress(makers.idx(np.zeros((60, 1), np.uint8)))
    (tmp_path / "mnist" / NAMES[1]).write_bytes(table)
    with pytest.raises(UserError, match="train-labels.* is damaged"):
        mnist(data_dir=tmp_path)


@pytest.mark.parametrize("wrong", [0, 1])
def test_of_images_and_labels_the_published_one_is_right(tmp_path: Path, wrong: int) -> None:
    makers.digits(tmp_path / "59", train=59)
    makers.digits(tmp_path / "60", train=60)
    paths = [tmp_path / "60" / name for name in NAMES]
    paths[wrong] = tmp_path / "59" / NAMES[wrong]
    with pytest.raises(DamagedError) as error:
        read_digits(tuple(paths), {paths[1 - wrong]})
    assert error.value.path == paths[wrong]


def test_without_knowing_which_is_wrong_neither_is_put_aside(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")
    (tmp_path / "mnist" / NAMES[1]).write_bytes(gzip.compress(makers.idx(np.zeros(59))))
    with pytest.raises(UserError, match=r"do not belong together \(59 labels for 60 images\)"):
        mnist(data_dir=tmp_path)
    assert all((tmp_path / "mnist" / name).exists() for name in NAMES)


@pytest.mark.parametrize("fake", [True, False])
def test_a_border_of_black(tmp_path: Path, fake: bool) -> None:
    makers.digits(tmp_path / "mnist")
    plain = mnist(data_dir=tmp_path, fake=fake)
    data = mnist(data_dir=tmp_path, fake=fake, pad=4)
    assert data.train.inputs.shape[1:] == (36, 36, 1)
    assert data.train.inputs[:, 4:-4, 4:-4].equal(plain.train.inputs)
    assert data.test.inputs.sum() == plain.test.inputs.sum()
    assert data.fingerprint != plain.fingerprint
    author = mnist(data_dir=tmp_path, fake=fake, pad=1, preprocess="author")
    assert author.test.inputs[:, 0].eq(-2).all()
    with pytest.raises(UserError, match="data.pad=-1 must be at least 0"):
        mnist(data_dir=tmp_path, fake=fake, pad=-1)


def test_a_look_is_enough_for_the_fingerprint(tmp_path: Path, cache: Path) -> None:
    makers.digits(tmp_path / "mnist")
    options = {"data_dir": tmp_path, "preprocess": "standard", "split": "random", "limit_test": 3}
    data, look = mnist(**options), mnist(**options, peek=True)
    assert (look.source, look.fingerprint) == (data.source, data.fingerprint)
    assert look.train.inputs.dtype == torch.uint8  # nothing was computed


def test_other_bytes_are_no_idx_file(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")
    (tmp_path / "mnist" / NAMES[0]).write_bytes(gzip.compress(b"<html>not found</html>"))
    with pytest.raises(UserError, match="no idx file of bytes"):
        mnist(data_dir=tmp_path)


@pytest.mark.parametrize("folder", ["cifar10", "."])
def test_cifar_batches(tmp_path: Path, folder: str) -> None:
    images = makers.cifar(tmp_path / folder / "cifar-10-batches-py")
    data = cifar10(data_dir=tmp_path)
    assert data.train.inputs.shape == (100, 32, 32, 3)
    np.testing.assert_array_equal(data.train.inputs, images[:100])
    np.testing.assert_array_equal(data.test.inputs, images[100:])
    # Flattened, the colours of a pixel are neighbours.
    assert data.train.inputs[0].flatten()[(5 * 32 + 7) * 3 + 1] == images[0, 5, 7, 1]


@pytest.mark.parametrize("keep", [0, 100, -100])
def test_a_truncated_cifar_batch_is_put_aside(tmp_path: Path, keep: int) -> None:
    folder = tmp_path / "cifar10/cifar-10-batches-py"
    makers.cifar(folder)
    (folder / "data_batch_3").write_bytes((folder / "data_batch_3").read_bytes()[:keep])
    with pytest.raises(
        UserError, match=r"data_batch_3 is damaged .* now data_batch_3\.corrupt; put"
    ):
        cifar10(data_dir=tmp_path)
    assert (folder / "data_batch_3.corrupt").exists()


def test_a_cifar_batch_that_is_a_program_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cifar10/cifar-10-batches-py"
    makers.cifar(folder)
    (folder / "test_batch").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(UserError, match=r"it wants to run os\.system"):
        cifar10(data_dir=tmp_path)


def test_the_fingerprint_tells_content_and_preprocessing(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")
    options = ({}, {"preprocess": "unit"}, {"limit_train": 9}, {"split": "random"})
    prints = [mnist(data_dir=tmp_path, **each).fingerprint for each in options]
    assert prints[0] == mnist(data_dir=tmp_path).fingerprint
    makers.digits(tmp_path / "mnist")
    assert len({*prints, mnist(data_dir=tmp_path).fingerprint}) == 5
