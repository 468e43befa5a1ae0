"""Any input gives a result or a one-sentence error: no traceback, no hang, no files elsewhere.

The tests try a few examples; ``make fuzz`` tries thousands of new ones.
"""

import json
import os
import random
import shutil
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from PIL import Image

from focusing.compose import check_config, compose_config, config_dir
from focusing.config import Optim
from focusing.data.decoders import load_npy, load_npz, read_cifar, read_idx
from focusing.data.image_sets import open_image
from focusing.data.tabular import read_boston
from focusing.data.text import read_imdb
from focusing.errors import UserError
from focusing.messages import user_message
from focusing.results.identity import run_folder
from focusing.run import build_callbacks
from focusing.shipping.card import Card
from focusing.shipping.predict import load_model, predict_file
from focusing.training.loggers import check_loggers
from focusing.training.optimizer import build_optimizer
from focusing.training.trainer import build_net, check_batch_norm, load_data, split_data
from tests.integration.commands import run_here
from tests.unit.data.makers import cifar, digits, npz, photograph, recording
from tests.unit.shipping.conftest import make_run

EXAMPLES = int(os.environ.get("FOCUSING_FUZZ", "15"))
"""Number of examples per test; make fuzz sets more, and draws new ones each time."""
TIMEOUT = 300
"""Seconds after which an example counts as hanging, even on a slow machine."""
fuzz = settings(
    max_examples=EXAMPLES,
    derandomize="FOCUSING_FUZZ" not in os.environ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)


@contextmanager
def only_sentences(allowed: Path) -> Iterator[None]:
    """Allow only errors with a user message, within the timeout, and no files elsewhere."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still busy after {TIMEOUT} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(TIMEOUT)
    seen = listing(allowed.parent, allowed)
    try:
        yield
    except Exception as error:
        message = user_message(error)
        if message is None:
            raise
        assert message.strip()
        assert "\x1b" not in str(UserError(message))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert listing(allowed.parent, allowed) == seen


def run_command(place: Path, arguments: list[str]) -> None:
    """Run a focusing command in this process; a user error ends it with code 1."""
    with only_sentences(place):
        done = run_here(*arguments, cwd=place)
    assert "\x1b" not in done.stdout + done.stderr


def listing(folder: Path, excluded: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_relative_to(excluded)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory, alone in a folder of its own."""
    folder = tmp_path_factory.mktemp("fuzz") / "here"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("FOCUSING_CACHE_DIR", str(folder / "cache"))
        patch.setenv("FOCUSING_DATA_DIR", str(folder / "data"))
        yield folder


HOSTILE = [
    *("null", "true", "false", "-1", "0", "1", "2", "1.5", "-0.0", "nan", "inf", "-inf", "1e308"),
    *("1e-320", "99", "1000000000000", "100000000000000000000", "-9223372036854775809", "'1'"),
    *("abc", "''", "' '", "???", "[]", "[1]", "[-1]", "[1,2,3]", "[[1],2]", "[abc]", "[null]"),
    *("{}", "{a:1}", "{_target_:os.system}", "'../../x'", "/", "/dev/null", "'~nosuchuser/x'"),
    *("'a b'", "ünïcödé", "'\\x1b[2J'", "'x\\0y'", "${seed}", "${nosuch}", "${oc.env:HOME}"),
    *("${focusing.spread:0,1,1000000000}", "${focusing.spread:0,1,3}", "${focusing.family:x}"),
    *("image", "auto", "gpu", "torch.nn.Module", "1_000", "0x10", "1e3", "9" * 400, "[" * 30),
]
GROUPS = {
    group: sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))
    for group in ("data", "model", "optim", "protocol", "trainer", "callbacks", "logger", "size")
}


@cache
def option_names(groups: tuple[str, ...]) -> list[str]:
    """Names of all options and groups of a composed config."""
    config = OmegaConf.to_container(compose_config(*groups), resolve=False)

    def names(node: Any, prefix: str) -> Iterator[str]:
        for key, value in node.items():
            yield f"{prefix}{key}"
            if isinstance(value, dict):
                yield from names(value, f"{prefix}{key}.")

    assert isinstance(config, dict)
    return list(names(config, ""))


CHOICES = [
    ("data=synthetic", "model=focus_s"),
    ("data=synthetic", "model=dense", "callbacks=[default,measure]"),
    ("data=mnist", "model=focus_2d", "optim=sgd"),
    ("data=clt", "model=cnn_focus", "logger=many"),
    ("data=cifar10", "model=vgg_focus", "model.features=small", "model.pretrained=false"),
    ("data=fsdd", "model=fixed_s", "protocol=holdout"),
    ("data=boston", "model=focus_c", "optim=adam"),
    ("data=imdb", "model=fasttext_focus"),
]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    choice = draw(st.sampled_from(CHOICES))
    value = st.sampled_from(HOSTILE) | st.text(max_size=8) | st.integers().map(str)
    name = st.sampled_from([*option_names(choice), "", "nosuch", "model.nosuch", "hydra"])
    override = st.one_of(
        st.tuples(st.sampled_from(["", "", "", "+", "++", "~"]), name, value).map(
            lambda parts: f"{parts[0]}{parts[1]}={parts[2]}"
        ),
        name.map(lambda option: f"~{option}"),
        st.sampled_from([f"{group}={name}" for group, names in GROUPS.items() for name in names]),
    )
    return [*choice, "size=smoke", *draw(st.lists(override, min_size=1, max_size=3))]


@given(overrides=command_lines())
@settings(fuzz, max_examples=max(6, EXAMPLES // 2))  # composing a config is slow
def test_options(place: Path, overrides: list[str]) -> None:
    """All steps of a run before training."""
    with only_sentences(place):
        config = check_config(compose_config(*overrides))
        run_folder(config)
        config["data"]["fake"] = config["data"]["name"] != "synthetic"
        data = load_data(config)
        net = build_net(config, data)
        check_batch_norm(config, net, split_data(config, data)["train"])
        build_optimizer(net, Optim(**config["optim"]))
        check_loggers(config["logger"])
        build_callbacks(config)


@given(
    arguments=st.lists(
        st.sampled_from(
            ["report", "show", "eval", "predict", "export", "prune", "archive", "wandb", "data"]
            + ["push", "check", "list", "show", ".", "..", "nowhere", "--out", "--port", "--json"]
            + ["99999999", "-1", "data.noise=[", "data=nosuch", "--threshold", "nan", "--top", "-h"]
        )
        | st.text(max_size=5),
        max_size=4,
    )
)
@fuzz
def test_arguments(place: Path, arguments: list[str]) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    os.chdir(place)
    run_command(place, arguments)


def damage(content: bytes, seed: int) -> bytes:
    """Cut, change, double or insert bytes at random places."""
    chance = random.Random(seed)  # noqa: S311 - a test
    changed = bytearray(content)
    for _ in range(chance.randint(1, 8)):
        place = chance.randrange(len(changed) + 1) if chance.random() < 0.7 else 0
        length = chance.choice([1, 1, 2, 4, 8, 100])
        piece = slice(place, place + length)
        where, content = chance.choice(
            [
                (piece, chance.randbytes(length)),
                (piece, bytes([chance.choice([0, 255, 127])]) * length),
                (piece, b""),
                (slice(place, place), changed[piece]),
                (slice(place, None), b""),
            ]
        )
        changed[where] = content
    return bytes(changed)


@pytest.fixture(scope="module")
def files(place: Path) -> dict[str, Path]:
    """One valid file of every format."""
    folder = place.parent / "good"
    folder.mkdir()
    digits(folder, 12, 12)
    cifar(folder / "cifar", 2)
    photograph(folder / "photo.jpg", (60, 60))
    Image.new("L", (28, 28)).save(folder / "image.png")
    recording(folder / "sound.wav", np.zeros(800))
    (folder / "boston_housing.npz").write_bytes(npz(x=np.zeros((506, 13)), y=np.zeros(506)))
    np.save(folder / "array.npy", np.zeros((2, 28, 28)))
    texts, labels = np.array([[1, 2, 3]] * 4, dtype=object), np.array([0, 1, 0, 1])
    content = npz(x_train=texts, y_train=labels, x_test=texts, y_test=labels)
    (folder / "imdb.npz").write_bytes(content)
    (folder / "table.csv").write_text("a,b\n1,2\n3,4\n")
    return {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}


def load_image(path: Path) -> None:
    with open_image(path) as image:
        image.load()


IMAGE_CARD = Card(
    "mnist", [28, 28, 1], list("0123456789"), model={"inputs": [28, 28, 1], "outputs": 10}
)


def predict(path: Path) -> None:
    predict_file(lambda x: torch.zeros(len(x), 10), IMAGE_CARD, path)


READERS: list[tuple[str, Callable[[Path], object]]] = [
    ("train-images-idx3-ubyte.gz", read_idx),
    ("photo.jpg", load_image),
    ("image.png", load_image),
    ("boston_housing.npz", read_boston),
    ("array.npy", load_npy),
    ("imdb.npz", lambda path: read_imdb(path, 100, 5, 2)),
    ("data_batch_1", lambda path: read_cifar(path.parent)),
    *((name, predict) for name in ("image.png", "array.npy", "sound.wav", "table.csv")),
    ("boston_housing.npz", predict),
]


@pytest.mark.parametrize(("name", "read"), READERS)
@given(seed=st.integers(0, 2**32))
@fuzz
def test_damaged_files(
    place: Path, files: dict[str, Path], name: str, read: Callable[[Path], object], seed: int
) -> None:
    folder = place / "files"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(files[name].parent, folder)
    (folder / name).write_bytes(damage(files[name].read_bytes(), seed))
    with only_sentences(place):
        read(folder / name)


@given(content=st.binary(max_size=200), suffix=st.sampled_from([".npz", ".npy", ".gz", ".png"]))
@fuzz
def test_random_files(place: Path, content: bytes, suffix: str) -> None:
    path = place / f"x{suffix}"
    path.write_bytes(content)
    for read in (load_npz, load_npy, read_idx, load_image):
        with only_sentences(place):
            read(path)


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    small = ["data.n_samples=60", "model.hidden=[4]", "trainer.max_epochs=1"]
    return make_run(place.parent / "runs", *small)


def mutate(draw: st.DrawFn, node: Any, depth: int = 0) -> Any:
    """Copy nested containers with one value replaced or removed."""
    odd = st.sampled_from([None, True, -1, 0, 1.5, 10**20, float("nan"), "", "x", "\x1b[2J"]) | (
        st.sampled_from([[], {}, [[]], {"_target_": "os.system"}, "../../x", "a" * 300, 10**9])
    )
    if not isinstance(node, dict | list) or not node or (depth and draw(st.integers(0, 4)) == 0):
        return draw(odd)
    key = draw(st.sampled_from(range(len(node)) if isinstance(node, list) else sorted(node)))
    changed = node.copy()
    if draw(st.integers(0, 5)) == 0:
        del changed[key]
    else:
        changed[key] = mutate(draw, node[key], depth + 1)
    return changed


@pytest.mark.parametrize("name", ["config.yaml", "result.json"])
@given(data=st.data())
@fuzz
def test_run_folders(place: Path, run: Path, name: str, data: st.DataObject) -> None:
    folder = place / "E" / "0123456789" / "seed=0"
    shutil.rmtree(place / "E", ignore_errors=True)
    shutil.copytree(run, folder)
    plain = yaml.safe_load((folder / name).read_text())  # JSON is YAML
    changed = data.draw(st.composite(mutate)(plain))
    text = yaml.safe_dump(changed) if name.endswith("yaml") else json.dumps(changed)
    (folder / name).write_text(text)
    commands = {
        "config.yaml": [["eval", str(folder)], ["predict", str(folder), "nothing.csv"]],
        "result.json": [["show", str(folder)], ["archive", str(place / "E"), "--out", "archived"]],
    }
    for command in commands[name]:
        run_command(place, command)


@given(data=st.data())
@fuzz
def test_checkpoints(place: Path, run: Path, data: st.DataObject) -> None:
    folder = place / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run, folder)
    for path in (folder / "checkpoints").glob("*.ckpt"):
        if data.draw(st.booleans()):
            path.write_bytes(damage(path.read_bytes(), data.draw(st.integers(0, 2**32))))
        else:
            checkpoint = torch.load(path, weights_only=True)
            weights = checkpoint.get("state_dict", {})
            key = data.draw(st.sampled_from(sorted(weights)))
            weights[key] = data.draw(
                st.sampled_from([None, "x", torch.zeros(3), weights[key].to(torch.complex64)])
            )
            torch.save(checkpoint, path)
    with only_sentences(place):
        load_model(folder)


@given(data=st.data())
@fuzz
def test_cards(place: Path, data: st.DataObject) -> None:
    plain = json.loads(Card("x", [4], ["a", "b"], model={"outputs": 2}).to_json())
    changed = data.draw(st.composite(mutate)(plain))
    with only_sentences(place):
        Card.from_json(json.dumps(changed), "file")


def test_only_sentences_detects_violations(place: Path) -> None:
    with pytest.raises(ZeroDivisionError), only_sentences(place):
        _ = 1 / 0
    with pytest.raises(AssertionError), only_sentences(place):
        (place.parent / "elsewhere").touch()
    with zipfile.ZipFile(place / "x.npz", "w"), only_sentences(place):
        raise UserError("refused")
