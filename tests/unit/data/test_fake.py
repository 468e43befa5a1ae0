from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from focusing.compose import config_dir, prepare_hydra
from focusing.data import DataSet
from focusing.data.commands import read_data
from focusing.instantiate import instantiate

SHAPES = {
    "synthetic": ((40,), 2),
    "mnist": ((28, 28, 1), 10),
    "clt": ((60, 60, 1), 10),
    "cifar10": ((32, 32, 3), 10),
    "fashion": ((28, 28, 1), 10),
    "lfw": ((50, 37, 1), 62),
    "fsdd": ((20, 40, 1), 10),
    "boston": ((13,), 0),
    "reuters": ((1000,), 46),
    "dna": ((180,), 3),
    "imdb": ((400,), 2),
    "catsdogs": ((125, 125, 3), 2),
}


def fake(name: str, tmp_path: Path) -> DataSet:
    return read_data(name, tmp_path / "nothing", ["data.fake=true"])


@pytest.mark.parametrize("name", SHAPES)
def test_every_config_has_a_fake_of_the_right_shape(name: str, tmp_path: Path) -> None:
    data = fake(name, tmp_path)
    shape, classes = SHAPES[name]
    assert data.source == "fake"
    assert data.train.inputs.shape[1:] == data.test.inputs.shape[1:] == shape
    assert data.classes == classes
    for part in (data.train, data.test):
        if classes:
            assert set(part.targets.tolist()) == set(range(classes))
        else:
            assert part.targets.dtype == torch.float32
    assert data.train.inputs.dtype == (torch.int32 if name == "imdb" else torch.float32)
    assert bool(data.vocabulary) == (name == "imdb")


@pytest.mark.parametrize(("split", "count"), [("random", 103), ("official", 128), ("kfold10", 52)])
def test_the_papers_recipe_of_dna_leaves_the_split_to_the_user(split: str, count: int) -> None:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        cfg = compose("train", ["data=dna", f"data.split={split}", "data.fake=true"])
    options = OmegaConf.to_container(cfg.data)
    del options["name"]
    assert len(instantiate(options, DataSet).test.targets) == count


def test_a_fake_is_always_the_same(tmp_path: Path) -> None:
    first, second = fake("mnist", tmp_path), fake("mnist", tmp_path)
    assert torch.equal(first.train.inputs, second.train.inputs)
    assert first.fingerprint == second.fingerprint


def test_there_is_a_config_for_every_set() -> None:
    conf = Path(__file__).parents[3] / "conf" / "data"
    assert {path.stem for path in conf.glob("*.yaml")} == {*SHAPES}
