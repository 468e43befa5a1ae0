"""Loading and downloading of pretrained weights, and error messages."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import torch
from torch import Tensor

from focusing.errors import UserError
from focusing.models import Transfer, dense_transfer, focused_transfer
from tests.unit.models.small import FOCUS


def net(**options: Any) -> Transfer:
    return dense_transfer((8, 8, 3), 2, features="small", **options)


def weights(**more: Any) -> dict[str, Tensor]:
    torch.manual_seed(5)
    state = Transfer((8, 8, 3), 2, features="small", pretrained=False).features.state_dict()
    return {**{f"features.{key}": value for key, value in state.items()}, **more}


def saved(folder: Path, content: Any) -> Path:
    torch.save(content, folder / "weights.pth")
    return folder / "weights.pth"


def test_loads_features_from_a_file(tmp_path: Path) -> None:
    path = saved(tmp_path, weights(**{"classifier.0.weight": torch.zeros(3)}))
    focused = focused_transfer((8, 8, 3), 2, features="small", weights=str(path), **FOCUS)
    for filled in (net(weights=path), focused):
        state = filled.state_dict()
        assert all(torch.equal(value, state[key]) for key, value in weights().items())
    torch.manual_seed(0)
    assert not torch.equal(net(pretrained=False).features[0].weight, weights()["features.0.weight"])
    with pytest.raises(ValueError, match=r"weights.pth is not read when model.pretrained=false"):
        net(weights=path, pretrained=False)
    with pytest.raises(UserError, match=r"features=small has no ImageNet weights: .*pretrained="):
        net()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model.weights=.*/no.pth cannot be read: No such file"):
        net(weights=tmp_path / "no.pth")
    with pytest.raises(UserError, match="is a folder, not a file"):
        net(weights=tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02.", None])
def test_a_file_without_weights(tmp_path: Path, content: bytes | None) -> None:
    path = saved(tmp_path, Path("x"))  # an object whose unpickling would run code
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"is not a file of weights: give a state dict") as raised:
        net(weights=path)
    assert "weights_only" not in str(raised.value)


def test_weights_of_another_network(tmp_path: Path) -> None:
    path = saved(tmp_path, weights())
    with pytest.raises(UserError, match=r"has no conv1.weight: these are not weights of resnet18"):
        dense_transfer((8, 8, 3), 2, features="resnet18", weights=path)
    with pytest.raises(UserError, match=r"features.0.weight has shape \(8, 3, 3, 3\), but this"):
        dense_transfer((8, 8, 1), 2, features="small", weights=path)
    with pytest.raises(UserError, match="is not a state dict: it is a list"):
        net(weights=saved(tmp_path, [1, 2]))
    with pytest.raises(UserError, match=r"has no features.3.bias"):
        net(weights=saved(tmp_path, weights(**{"features.3.bias": 1.0})))


class TestDownload:
    """torch.hub downloads; these tests check its arguments and how its errors are reported."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("TORCH_HOME", str(tmp_path))
        return tmp_path / "hub" / "checkpoints"

    def answer(self, monkeypatch: pytest.MonkeyPatch, content: Any) -> list[Any]:
        asked: list[Any] = []

        def load(url: str, target: str, prefix: str, progress: bool) -> None:
            asked.append((url, prefix))
            if isinstance(content, Exception):
                raise content
            torch.save(content, target)

        monkeypatch.setattr(torch.hub, "download_url_to_file", load)
        return asked

    def test_downloads_once_and_checks_the_hash(
        self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        asked = self.answer(monkeypatch, {})
        for _ in range(2):
            with pytest.raises(UserError, match=r"vgg16 has no features.0.weight"):
                dense_transfer((32, 32, 3), 2)
        url = "https://download.pytorch.org/models/vgg16-397923af.pth"
        assert asked == [(url, "397923af")]
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            (URLError("Unknown name"), r"cannot be downloaded \(Unknown .*model.weights=PATH"),
            (RuntimeError("invalid hash value"), r"fd.pth came damaged \(invalid hash value\)"),
        ],
    )
    def test_a_download_that_fails(
        self, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
    ) -> None:
        self.answer(monkeypatch, error)
        with pytest.raises(UserError, match=sentence):
            dense_transfer((32, 32, 3), 2, features="resnet18")

    def test_a_damaged_or_unsafe_copy(self, cache: Path) -> None:
        cache.mkdir(parents=True)
        copy = cache / "resnet18-f37072fd.pth"
        for write in (lambda: copy.write_bytes(b"hello"), lambda: torch.save(Path("x"), copy)):
            write()
            with pytest.raises(UserError, match=r"f37072fd.pth is damaged: remove it, or give"):
                dense_transfer((32, 32, 3), 2, features="resnet18")
