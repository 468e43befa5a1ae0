"""Commands and examples in the README and the docs work, and links exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from focusing.cli import build_parser
from tests.integration.commands import ROOT, run_here, tracked

PAGES = ["README.md", "docs/layer.md", "docs/index.md", "docs/tutorials/own_cnn.md"]
PAGES += ["docs/explanation/dynamic.md"]
QUICK = ["trainer.max_epochs=1", "data.fake=true", "data.limit_train=64", "data.limit_test=32"]


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_run(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {})  # noqa: S102 - our own page


def test_headline_command_runs(tmp_path: Path) -> None:
    lines = re.findall(r"^python train\.py (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        done = run_here("train", *line.split(), *QUICK, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "accuracy" in done.stdout


def typed_commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the commands on all pages: ``focusing``, ``make`` or ``python train.py``, and words."""
    start = re.compile(r"(?:\$ )?(?:PYTHONPATH=\. )?(focusing|make|python train\.py) (.+)")
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text().replace("\\\n", "")
        for block, inline in re.findall(r"```\w*\n(.*?)```|`([^`\n]+)`", text, re.DOTALL):
            for line in (block or inline).splitlines():
                command = start.match(line.strip())
                if command and not re.search(r"\[-|\[NAME|\.\.\.", line):  # it is a usage line
                    words = re.split(r"\s+#|\s{2,}[a-z]+ [a-z]+|\s&", command[2])[0]
                    yield command[1], shlex.split(words)


def test_commands_on_pages_exist() -> None:
    parsers = build_parser()[1]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    seen = 0
    for program, words in typed_commands():
        told, seen = f"{program} {' '.join(words)}", seen + 1
        if program == "make":
            assert words[0] in targets, told
        elif program == "focusing" and words != ["--help"] and words != ["wandb"]:
            parser = parsers.get(" ".join(words[:2])) or parsers.get(words[0])
            assert parser, told
            options = {word for word in words if word.startswith("--")}
            assert words[0] == "train" or options <= parser._option_string_actions.keys(), told
        for group, choices in (word.split("=", 1) for word in words if re.match(r"[a-z]+=", word)):
            if (ROOT / "conf" / group).is_dir() and "--config-dir" not in words:
                names = choices.strip("[]").split(",")
                assert all((ROOT / "conf" / group / f"{name}.yaml").exists() for name in names), (
                    told
                )
    assert seen > 80


def test_committed_pages_have_no_dead_links() -> None:
    """Links, and files that a page of a report names, must be tracked by git."""
    known = {path.resolve() for path in tracked()}
    known |= {folder for path in known for folder in path.parents}
    pages = tracked("*.md")
    assert len(pages) > 50
    dead = []
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        links = re.findall(r"\]\(<?([^)\s>]+)>?\)", text)
        links += re.findall(r'(?:src|href)="([^"]+)"', text)
        files = {link.partition("#")[0] for link in links if not re.match(r"\w+:", link)}
        if "report" in page.parts:
            files |= set(re.findall(r"`([\w.-]+\.(?:csv|png|svg|pdf|gif))`", text))
        dead += [(page.name, file) for file in files if (page.parent / file).resolve() not in known]
    assert dead == []
