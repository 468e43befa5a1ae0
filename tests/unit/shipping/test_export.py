"""Exported files compute the same as the network, and are validated when read."""

import io
import json
import os
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import focusing
from focusing.errors import UserError
from focusing.shipping import export as exporting
from focusing.shipping.card import Card, describe_network
from focusing.shipping.export import SUFFIXES, export_network, read_exported, write_exported
from focusing.shipping.trained import load_run
from tests.command_line import export, predict, prune
from tests.unit.shipping.conftest import make_run

for package in ("onnxruntime", "onnxscript", "safetensors"):
    pytest.importorskip(package, reason="needs the extra focusing[export]")


def contents(path: Path) -> bytes:
    """Bytes of a file, or of all files in an archive."""
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as file:
        return b"".join(name.encode() + file.read(name) for name in file.namelist())


@pytest.mark.parametrize("kind", SUFFIXES)
def test_formats_compute_the_same(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    trained = load_run(pictures)
    net, test = trained.net, trained.data.test.inputs
    for layer in net.focused_layers().values():
        layer.prune(1.5)
    sizes = []
    for sparse in (False, True):
        path = tmp_path / f"net{SUFFIXES[kind]}"
        options = ["--format", kind, "--out", str(path), "--threshold", "1.5"]
        export([str(pictures), *options, *(["--sparse"] if sparse else [])])
        printed = capsys.readouterr().out
        assert "was run on 64 test samples" in printed
        assert "of the connections dropped" in printed
        assert ("2 of 2 focused layers in tiles" in printed) == sparse
        forward, card = read_exported(path, trust=True)
        with torch.no_grad():
            for samples in (1, 7):  # any batch size
                x = test[:samples]
                torch.testing.assert_close(forward(x), net(x), rtol=1e-4, atol=1e-4)
        assert card.classes[:2] == ["T-shirt", "trouser"]
        assert card.shape == [28, 28, 1]
        assert card.factor == pytest.approx(1 / 255)
        assert card.pruned > 0.5
        assert bool(card.tiles) == sparse
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        private = [Path(module.__file__ or "").parent for module in (focusing, torch)]
        secrets = [*(str(folder).encode() for folder in private), b".part."]
        secrets.append(test[0].numpy().tobytes())
        everything = contents(path)
        assert not [secret for secret in secrets if secret in everything]
        sizes.append(path.stat().st_size)
        ordinary = tmp_path / "ordinary"
        ordinary.touch()
        assert path.stat().st_mode == ordinary.stat().st_mode  # others can read it, too
        ordinary.unlink()
    assert sizes[1] < 0.7 * sizes[0]


def test_export_follows_no_links(pictures: Path, tmp_path: Path) -> None:
    kept, path = tmp_path / "kept", tmp_path / "net.safetensors"
    kept.write_text("precious")
    for name in (path.name, f".part.{path.name}"):
        (tmp_path / name).symlink_to(kept)
    export([str(pictures), "--format", "safetensors", "--out", str(path)])
    assert kept.read_text() == "precious"
    assert path.is_file()
    assert not path.is_symlink()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["data=mnist", "model=cnn_focus", "model.filters=[4,4]", "model.hidden=20"], "onnx"),
        (["data=imdb", "model=fasttext_focus", "data.words=50", "data.length=12"], "onnx"),
        (["data=imdb", "model=fasttext_dense", "data.words=50"], "exported-program"),
        (["data=fsdd", "model=focus_2d"], "safetensors"),
        (["data=cifar10", "model=vgg_focus", "model.features=small", "size=smoke"], "onnx"),
    ],
)
def test_families_of_networks(tmp_path: Path, options: list[str], kind: str) -> None:
    run = load_run(make_run(tmp_path, "data.fake=true", *options, "trainer.limit_batches=2"))
    path = tmp_path / f"net{SUFFIXES[kind]}"
    card = export_network(run, run.net, path, kind=kind, sparse=True).card  # compares outputs
    forward, again = read_exported(path, trust=True)
    assert again == card
    raw = np.zeros((2, *card.shape))
    with torch.no_grad():
        assert forward(card.prepare(raw)).shape == run.net(card.prepare(raw)).shape


def test_cards_preprocess_like_the_data_set(tmp_path: Path) -> None:
    options = ["data=boston", "model=focus_s", "data.pad=3", "data.preprocess=standard"]
    run = load_run(make_run(tmp_path / "table", "data.fake=true", *options))
    path = tmp_path / "net.pt2"
    card = export_network(run, run.net, path, kind="exported-program", sparse=True).card
    assert (card.shape, card.pad, card.classes) == ([13], 3, [])
    mean, spread = np.array(card.offset), np.array(card.factor)
    [prepared] = card.prepare(np.ones((1, 13)))
    assert prepared.shape == (19,)
    np.testing.assert_allclose(prepared[3:-3], mean + spread, rtol=1e-5)
    # Undoing it gives the training data that the statistics come from.
    inside = (run.data.train.inputs[:, 3:-3].double().numpy() - mean) / spread
    np.testing.assert_allclose(inside.mean(0), -mean / spread, rtol=1e-3)
    # Images get their border before scaling.
    options = ["data=mnist", "data.pad=2", "data.preprocess=author", "model.hidden=[8,8]"]
    run = load_run(make_run(tmp_path / "images", "data.fake=true", "model=focus_s", *options))
    card = describe_network(run, run.net)
    assert (card.shape, card.border, card.pad) == ([28, 28, 1], 2, 0)
    prepared = card.prepare(np.full((1, 28, 28, 1), 64))
    assert prepared.shape == (1, 32, 32, 1)
    assert (prepared[0, 0, 0].item(), prepared[0, 5, 5].item()) == (-2, -1)


def test_file_with_other_outputs_is_not_kept(
    focused: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(kind: str, path: Path, net: Any, example: Tensor, card: Card) -> None:
        net.output.weight.mul_(1.01)
        genuine(kind, path, net, example, card)

    genuine = exporting.write_exported
    monkeypatch.setattr(exporting, "write_exported", broken)
    path = tmp_path / "net.safetensors"
    with pytest.raises(UserError, match="was not kept: its outputs differ"):
        export([str(focused), "--format", "safetensors", "--out", str(path)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["{dense}", "--threshold", "1"], "no focused layers to prune"),
        (["{dense}", "--pruned"], "has no pruned.pt: run focusing prune first"),
        (["{dense}", "--format", "jpeg"], "invalid choice"),
        (["{dense}", "--out", "model.xyz"], "ends in .onnx"),
    ],
)
def test_invalid_arguments(dense: Path, arguments: list[str], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        export([argument.format(dense=dense) for argument in arguments])


@pytest.mark.parametrize("suffix", SUFFIXES.values())
def test_damaged_and_foreign_files_are_rejected(tmp_path: Path, suffix: str) -> None:
    for text in (None, "", "{}", "[]"):
        with pytest.raises(UserError, match="not from focusing export"):
            Card.from_json(text, f"x{suffix}")
    path = tmp_path / f"net{suffix}"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="cannot be read as"):
        read_exported(path, trust=True)
    with pytest.raises(UserError, match="does not exist"):
        read_exported(tmp_path / f"other{suffix}")
    os.mkfifo(tmp_path / f"pipe{suffix}")
    with pytest.raises(UserError, match="is a pipe or a device, not a file"):
        read_exported(tmp_path / f"pipe{suffix}")


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("onnx", {"classes": ["a", "b", "c"]}, "has 2 outputs, and its card 3 classes"),
        ("exported-program", {"shape": [9]}, "cannot be read as"),
    ],
)
def test_cards_of_other_networks_are_rejected(
    focused: Path, tmp_path: Path, kind: str, changes: dict[str, Any], expected: str
) -> None:
    run = load_run(focused)
    card = describe_network(run, run.net)
    other = replace(card, model={}, factor=1.0, offset=0.0, **changes)
    path = tmp_path / f"net{SUFFIXES[kind]}"
    write_exported(kind, path, run.net.to_inference(), torch.zeros(2, 40), other)
    with pytest.raises(UserError, match=expected):
        read_exported(path, trust=True)


class Bad:
    """Creates a folder when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.made),)


def test_programs_need_trust_and_run_no_pickled_code(focused: Path, tmp_path: Path) -> None:
    good, bad, made = tmp_path / "good.pt2", tmp_path / "bad.pt2", tmp_path / "made"
    rows = tmp_path / "rows.csv"
    rows.write_text(",".join(["0.5"] * 40))
    export([str(focused), "--format", "exported-program", "--out", str(good)])
    with pytest.raises(UserError, match="is a program.*add --trust"):
        predict([str(good), str(rows)])
    predict([str(good), str(rows), "--trust"])
    pickled = io.BytesIO()
    torch.save(Bad(made), pickled)
    replaced = 0
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            evil = "/sample_inputs/" in name
            replaced += evil
            target.writestr(name, pickled.getvalue() if evil else source.read(name))
    assert replaced == 1
    for trust, expected in {False: "add --trust", True: "cannot be read as"}.items():
        with pytest.raises(UserError, match=expected):
            read_exported(bad, trust=trust)
    assert not made.exists()
    torch.load(io.BytesIO(pickled.getvalue()), weights_only=False)
    assert made.exists()  # the pickle does work without these guards


def test_test_set_of_one_sample(focused: Path, tmp_path: Path) -> None:
    run = load_run(focused)
    few = replace(run, data=replace(run.data, test=run.data.test.take(torch.arange(1))))
    path = tmp_path / "net.pt2"
    done = export_network(few, run.net, path, kind="exported-program", sparse=False)
    assert (done.samples, done.tiling) == (1, "Tiles would not be faster: it is stored dense.")
    batch = run.data.test.inputs[:3]
    forward, _ = read_exported(path, trust=True)
    torch.testing.assert_close(forward(batch), run.net(batch), rtol=1e-4, atol=1e-4)


def test_pruned_network_in_another_folder(
    focused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prune([str(focused), "--sparsity", "0.5", "--out", str(tmp_path)])
    out = ["--format", "safetensors", "--out", str(tmp_path / "net.safetensors")]
    export([str(focused), "--pruned", str(tmp_path), "--sparse", *out])
    printed = capsys.readouterr().out
    assert "50.0 % of the connections dropped" in printed
    assert re.search(r"1 of 1 focused layers in tiles: \d\d % of their products", printed)
    with pytest.raises(UserError, match="holds weights and no network: focusing export"):
        predict([str(tmp_path / "pruned.pt"), "x.csv"])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"schema": 9, "more": 1}, "newer version of focusing .schema 9"),
        ({"schema": 0}, "schema should be greater"),
        ({"data": 3}, "data should be a valid string"),
        ({"shape": [28, "28", 1]}, "shape.1 should be a valid integer"),
        ({"shape": 784}, "shape should be a valid array"),
        ({"classes": "0123456789"}, "classes should be a valid array"),
        ({"classes": ["0"]}, "1 classes do not fit 10 outputs"),
        ({"factor": [1.0, 2.0]}, "factor does not fit"),
        ({"factor": "x"}, "factor does not fit"),
        ({"offset": float("nan")}, "offset is not finite"),
        ({"border": -1}, "border should be greater"),
        ({"border": 2, "shape": [784]}, "only images have a border"),
        ({"pad": 1.5}, "pad should be a valid integer"),
        ({"top": "white"}, "top should be a valid number"),
        ({"reading": {"interpolation": "magic"}}, "interpolation is not one of"),
        ({"reading": {"shell": 1}}, "unknown option shell"),
        ({"reading": {"hop": 0}}, "hop.* should be greater"),
        ({"tiles": {"hidden1": [784, [["x"]]]}}, "tiles.hidden1.*"),
    ],
)
def test_invalid_cards_are_rejected(changes: dict[str, Any], expected: str) -> None:
    model = {"_target_": "focusing.models.dense_mlp", "outputs": 10}
    tiles = {"hidden1": (784, [[400, -1, 200], [400, 300, 484]])}
    classes = [str(digit) for digit in range(10)]
    card = Card("mnist", [28, 28, 1], classes, model=model, tiles=tiles)
    assert Card.from_json(card.to_json(), "x") == card
    with pytest.raises(UserError, match=f"x.onnx .*{expected}"):
        Card.from_json(json.dumps({**json.loads(card.to_json()), **changes}), "x.onnx")
