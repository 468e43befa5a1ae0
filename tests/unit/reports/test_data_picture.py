from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from focusing.data import Split
from focusing.data.commands import read_data
from focusing.errors import UserError
from focusing.reports.data_picture import draw_data
from tests.command_line import show_data


@pytest.mark.parametrize("name", ["mnist", "cifar10", "lfw", "fsdd", "boston", "dna", "imdb"])
def test_every_kind_of_data_has_a_picture(name: str, tmp_path: Path) -> None:
    data = read_data(name, tmp_path, ["data.fake=true"])
    draw_data(data, tmp_path / "figures" / "x.png")
    with Image.open(tmp_path / "figures" / "x.png") as picture:
        assert picture.width == 1440
        assert picture.convert("L").getextrema()[0] < 50


def test_data_that_stays_as_bytes_is_drawn_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("focusing.data.dataset.MAX_PREPARED_BYTES", 100)
    draw_data(
        read_data("catsdogs", tmp_path, ["data.fake=true", "data.size=9"]), tmp_path / "x.png"
    )
    assert (tmp_path / "x.png").exists()


@pytest.mark.parametrize("count", [7700, 79_000])
def test_no_number_is_cut_off_at_the_edge(tmp_path: Path, count: int) -> None:
    data = read_data("mnist", tmp_path, ["data.fake=true"])
    targets = torch.cat([torch.arange(10), torch.ones(count, dtype=torch.int64)])
    train = Split(torch.zeros(1).expand(count + 10, 28, 28, 1), targets)
    draw_data(replace(data, train=train), tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as picture:
        edge = picture.convert("L").crop((picture.width - 6, 0, *picture.size))
    assert edge.getextrema() == (255, 255)


def test_the_command_says_where_the_picture_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    show_data(["dna", "data.fake=true"])
    assert Path(capsys.readouterr().out.strip()) == Path("outputs/data/dna.png")
    assert (tmp_path / "outputs/data/dna.png").exists()
    with pytest.raises(UserError, match="NAME"):
        show_data([])
