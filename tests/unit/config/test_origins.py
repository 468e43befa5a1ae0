"""``focusing explain`` and ``focusing train --help``."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from focusing.compose import config_dir
from focusing.errors import UserError
from focusing.origins import explain_option, help_text, trace_options

HELP = [sys.executable, "-c", "from focusing.cli import main; main()", "train", "--help"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("data=fashion optim.lr_sigma", ["conf/optim/sgd.yaml", "rates fashion_simple_paper"]),
        ("optim.lr=3 optim.lr", ["sgd.yaml", "rates synthetic_simple_paper", "the command line"]),
        ("model.grid", ["its signature in Python"]),
        ("experiment=rescue model=focus_s model.sigma", ["focus_s.yaml", "rescue_focus_s"]),
        ("variant=author data=lfw model=fixed_s model.sigma", ["author_lfw_fixed_s"]),
        ("size=smoke data=mnist model.hidden", ["size.yaml", "smoke_mnist_simple"]),
    ],
)
def test_explain_lists_layers_in_order(
    words: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    explain_option(argparse.Namespace(words=words.split()))
    printed = capsys.readouterr().out
    places = [printed.index(name) for name in expected]
    assert places == sorted(places)
    [winner] = [line for line in printed.splitlines() if line.startswith("→")]
    assert expected[-1] in winner


def test_sources_match_the_composed_config_and_its_files() -> None:
    config, origins = trace_options(["data=boston", "model=focus_s", "variant=author"])
    options = {name: places[-1] for name, places in origins.items() if "conf/" in places[-1].place}
    assert len(options) > 50
    for name, origin in options.items():
        file, line = re.match(r"conf/(.*\.yaml):(\d+)", origin.place).groups()  # type: ignore[union-attr]
        text = (config_dir() / file).read_text().splitlines()[int(line) - 1]
        assert name.rpartition(".")[2] in text
    assert options["model.sigma_range"].value == list(config.model.sigma_range) == [0.05, 1.0]


@pytest.mark.parametrize(
    ("words", "reason"), [("optim.lrr", "did you mean optim.lr"), ("a b", "Name one")]
)
def test_unknown_options_are_rejected(words: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        explain_option(argparse.Namespace(words=words.split()))


def test_help_shows_comments_but_no_recipes() -> None:
    text = help_text(["model=cnn_focus", "data=clt"])
    assert not re.search(r"^(recipe|schema)", text, re.MULTILINE)
    assert "variant         author, author2018, text" in text
    assert re.search(r"drop_last: auto +# drop an incomplete", text)
    assert "kernel: 5" in text


def test_broken_pipe_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(HELP, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
