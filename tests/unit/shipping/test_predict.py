"""Inputs of all file types, and inputs that do not fit."""

import json
import os
import wave
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from focusing.errors import UserError
from focusing.shipping.card import Card
from focusing.shipping.predict import predict_file, read_samples
from focusing.shipping.trained import load_run
from tests.command_line import predict

GREY = Card("mnist", [28, 28, 1], [str(digit) for digit in range(10)])
COLOUR = Card("catsdogs", [8, 6, 3], ["cat", "dog"], reading={"interpolation": "nearest"})
ROWS = Card("boston", [4], [])
SOUND = Card(
    "fsdd",
    [20, 40, 1],
    [str(digit) for digit in range(10)],
    reading={"coefficients": 20, "frames": 40, "window": 512, "hop": 160, "bands": 40},
)
WORDS = Card("imdb", [5], ["bad", "good"], vocabulary=10)


def picture(path: Path, height: int, width: int) -> Path:
    values = np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)
    Image.fromarray(values).save(path)
    return path


def table(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def arrays(path: Path, **values: Any) -> Path:
    np.savez(path, **values)
    return path


def utf16(path: Path, text: str) -> None:
    path.write_text(text, "utf-16")


def made(path: Path, make: Callable[..., Any], *content: Any) -> Path:
    make(path, *content)
    return path


def image(path: Path, mode: str, value: Any, **options: Any) -> Path:
    Image.new(mode, (28, 28), value).save(path, **options)
    return path


def film(path: Path) -> Path:
    frames = [Image.new("L", (28, 28), value) for value in (0, 99)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    return path


def sound(path: Path, rate: int = 8000, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes((1000 * np.sin(np.arange(4000) / 3)).astype("<i2").tobytes())
    return path


def test_images(tmp_path: Path) -> None:
    assert read_samples(picture(tmp_path / "a.png", 28, 28), GREY).shape == (1, 28, 28, 1)
    colours = read_samples(picture(tmp_path / "b.png", 8, 6), COLOUR)
    assert colours[0, 0, 1].tolist() == [3, 4, 5]
    assert read_samples(picture(tmp_path / "c.png", 30, 30), COLOUR).shape == (1, 8, 6, 3)


@pytest.mark.parametrize(
    "text",
    [
        "1,2,3,4\n5,6,7,8\n",
        "a,b,c,d\n1,2,3,4\n\n5,6,7,8",
        '\ufeff"a","b",c,d\r\n"1", "2",3,4e0\r\n,,,\r\n5,6,7,8\r\n',  # as spreadsheets write it
    ],
)
def test_tables_with_and_without_header(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    assert read_samples(tmp_path / "a.csv", ROWS).tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [
        ("1", 1, 255),
        ("L", 77, 77),
        ("P", 0, 0),
        ("RGB", (9, 9, 9), 9),
        ("RGBA", (9, 9, 9, 255), 9),
        ("LA", (5, 255), 5),
        ("I;16", 100 * 257, 100),
    ],
)
def test_image_modes(tmp_path: Path, mode: str, value: Any, expected: int) -> None:
    pixels = read_samples(image(tmp_path / "a.png", mode, value), GREY)
    assert np.unique(pixels).tolist() == [expected]
    unit = read_samples(tmp_path / "a.png", replace(GREY, top=1.0))
    assert np.unique(unit) == pytest.approx(expected / 255)


@pytest.mark.parametrize(
    "shape", [(28, 28), (28, 28, 1), (784,), (3, 784), (3, 28, 28), (1, 28, 28, 1)]
)
def test_shapes_of_arrays(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 256, shape)
    names = np.array(["not", "read"])
    samples = read_samples(arrays(tmp_path / "a.npz", inputs=values, other=names), GREY)
    assert samples.shape[1:] == (28, 28, 1)
    assert (samples.ravel() == values.ravel()).all()
    np.save(tmp_path / "b.npy", values)
    assert (read_samples(tmp_path / "b.npy", GREY) == samples).all()


def test_recordings(tmp_path: Path) -> None:
    sample = read_samples(sound(tmp_path / "a.wav"), SOUND)
    assert sample.shape == (1, 20, 40, 1)
    assert sample[0, :, 25].any()  # half a second is 26 frames
    assert np.ptp(sample[0, :, 29:], axis=1).max() < 1e-9  # the rest is silence
    assert sample[0, 0, 29] < sample[0, 0, :26].min()


@pytest.mark.parametrize(
    ("card", "make", "expected"),
    [
        (GREY, lambda d: picture(d / "x.png", 20, 30), "20x30 pixels: this network wants 28x28"),
        (GREY, lambda d: sound(d / "x.wav"), "is a recording: this network wants grey images"),
        (GREY, lambda d: arrays(d / "x.npz", a=np.zeros((2, 9))), "has shape 2x9: this network"),
        (GREY, lambda d: arrays(d / "x.npz", a=[1], b=[2]), "one must be called inputs"),
        (GREY, lambda d: arrays(d / "x.npz", a=np.array(["x"])), "as arrays of .*<U1, not numbers"),
        (ROWS, lambda d: arrays(d / "x.npz", a=np.full(4, 1j)), "complex128, not numbers"),
        (ROWS, lambda d: made(d / "x.npy", np.save, np.full(4, 1j)), "complex128, not numbers"),
        (ROWS, lambda d: made(d / "x.npy", np.save, np.array([[1], [2, 3]], object)), "lists"),
        (ROWS, lambda d: made(d / "x.csv", os.mkfifo), "is a pipe or a device"),
        (ROWS, lambda d: made(d / "x.png", Path.symlink_to, "/dev/zero"), "is a pipe or a device"),
        (ROWS, lambda d: made(d / "x.npy", os.mkdir), "is a folder"),
        (GREY, lambda d: table(d / "x.npz", "no zip"), "as arrays of numbers"),
        (GREY, lambda d: table(d / "x.png", "no image"), "cannot be read as an image"),
        (ROWS, lambda d: picture(d / "x.png", 2, 2), "is an image: this network wants rows of 4"),
        (ROWS, lambda d: table(d / "x.csv", "1,2,3\n"), "has shape 1x3: this network wants rows"),
        (ROWS, lambda d: table(d / "x.csv", "1,2,3,4\n1,2"), "is not a table of numbers"),
        (ROWS, lambda d: table(d / "x.csv", "1,2,3,nan\n"), "values that are not numbers"),
        (ROWS, lambda d: table(d / "x.csv", "a,b,c,d\n"), r"has no rows of numbers\.$"),
        (ROWS, lambda d: table(d / "x.csv", "1;2;3;4\n"), "has no rows .*; commas separate"),
        (ROWS, lambda d: table(d / "x.csv", "1,5;2,5\n"), "column 2 is '5;2'; commas separate"),
        (ROWS, lambda d: made(d / "x.csv", utf16, "1,2,3,4\n"), "x.csv is not UTF-8 text"),
        (SOUND, lambda d: picture(d / "x.png", 20, 40), "wants wav recordings"),
        (SOUND, lambda d: sound(d / "x.wav", rate=44100), "44100 Hz: this network wants one of"),
        (SOUND, lambda d: sound(d / "x.wav", channels=2), "has 2 channels of 16 bits"),
        (ROWS, lambda d: table(d / "x.csv", "1,2,x,4\n1,2,3,4\n"), "line 1, column 3 is 'x'"),
        (ROWS, lambda d: table(d / "x.csv", "1,2,3,4\n\n1,,3,4\n"), "line 3, column 2 is ''"),
        (ROWS, lambda d: table(d / "x.csv", f"1,2,3,{'y' * 99}"), r"column 4 is 'y{30}\.\.\.'"),
        (GREY, lambda d: image(d / "x.tif", "F", 0.5), "mode F, whose range is unknown"),
        (GREY, lambda d: image(d / "x.tif", "I", 70000), "mode I, whose range"),
        (GREY, lambda d: image(d / "x.png", "RGBA", (9, 9, 9, 20)), "has transparent pixels"),
        (GREY, lambda d: image(d / "x.png", "L", 3, transparency=3), "has transparent pixels"),
        (GREY, lambda d: film(d / "x.gif"), "has 2 frames"),
        (GREY, lambda d: arrays(d / "x.npz", a=np.full(784, 0.9)), "up to 0.9: pixels .* to 255"),
        (GREY, lambda d: arrays(d / "x.npz", a=np.full(784, 999)), "up to 999: pixels .* to 255"),
        (WORDS, lambda d: table(d / "x.csv", "1,2,3,4,10\n"), "numbers from 0 to 9"),
        (WORDS, lambda d: table(d / "x.csv", "1,2,3\n"), "wants 5 word numbers"),
        (GREY, lambda d: table(d / "x.txt", "1"), "not an image, wav, csv, npz or npy"),
        (GREY, lambda d: d / "x.png", "x.png does not exist"),
    ],
)
def test_invalid_inputs_are_rejected(
    tmp_path: Path, card: Card, make: Callable[[Path], Path], expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        read_samples(make(tmp_path), card)


def test_predictions_are_those_of_the_network(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = load_run(pictures)
    scale = run.data.preparation
    assert scale is not None
    raw = (run.data.test.inputs[:5] - scale.offset) / scale.factor
    path = arrays(tmp_path / "some.npz", inputs=raw.round().numpy())
    predict([str(pictures), str(path), "--json", "--top", "3"])
    answers = json.loads(capsys.readouterr().out)
    assert [answer["input"] for answer in answers] == [f"{path}[{n}]" for n in range(5)]
    with torch.no_grad():
        expected = run.net(run.data.test.inputs[:5]).softmax(1)
    for answer, row in zip(answers, expected, strict=True):
        (best, probability), *others = answer["classes"].items()
        assert len(others) == 2
        assert best == run.labels[int(row.argmax())]
        assert probability == pytest.approx(row.max().item(), rel=1e-3)
    predict([str(pictures), str(path)])
    assert "probability" in capsys.readouterr().out


def test_regression_and_single_logit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "x.csv", "1,2,3,4\n0,0,0,1\n")
    values = predict_file(lambda x: x.sum(1, keepdim=True), ROWS, path)
    assert [answer["value"] for answer in values] == [10, 1]
    text = table(tmp_path / "y.csv", "1,2,3,4,5\n")
    [answer] = predict_file(lambda x: torch.tensor([[2.0]]), WORDS, text, top=5)
    assert list(answer["classes"]) == ["good", "bad"]
    assert answer["classes"]["good"] == pytest.approx(0.8808, abs=1e-4)


@pytest.mark.filterwarnings("error")
def test_values_that_are_too_large(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", "1,2,3,1e300\n")
    with pytest.raises(UserError, match="x.csv has values that are too large"):
        predict_file(lambda x: x.sum(1, keepdim=True), ROWS, path)


def test_file_names_are_not_markup(
    focused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a[").mkdir()
    names = ["[bold]a[.csv", "a[/x].csv"]
    for name in names:
        table(Path(name), ",".join(["0.5"] * 40))
    predict([str(focused), *names])
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)


def test_invalid_models_and_arguments(focused: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nor a run folder"):
        predict([str(focused / "result.json"), "x.csv"])
    with pytest.raises(UserError, match="is not a run folder"):
        predict([str(tmp_path), "x.csv"])
    with pytest.raises(UserError, match="--top: 0 is not a number of at least 1"):
        predict([str(focused), "x.csv", "--top", "0"])
