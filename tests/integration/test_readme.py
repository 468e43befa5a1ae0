"""What the README and the docs tell people to type works."""

import re
from pathlib import Path

import pytest

from tests.integration.commands import ROOT, run_here

PAGES = ["README.md", "docs/layer.md"]
QUICK = ["trainer.max_epochs=1", "data.fake=true", "data.limit_train=64", "data.limit_test=32"]


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_run(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})  # noqa: S102 - our own page


def test_the_headline_command_runs(tmp_path: Path) -> None:
    lines = re.findall(r"^python train\.py (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        done = run_here("train", *line.split(), *QUICK, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "accuracy" in done.stdout


def test_committed_pages_have_no_dead_links() -> None:
    """Neither links, nor names of files that a reader would look for beside a page."""
    pages = [path for at in ("*.md", "docs/**/*.md", "results/**/*.md") for path in ROOT.glob(at)]
    assert len(pages) > 50
    dead = []
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        links = re.findall(r"\]\(<?([^)\s>]+)>?\)", text)
        links += re.findall(r'(?:src|href)="([^"]+)"', text)
        files = {link.partition("#")[0] for link in links if not re.match(r"\w+:", link)}
        if "report" in page.parts:
            files |= set(re.findall(r"`([\w.-]+\.(?:csv|png|svg|pdf|gif))`", text))
        dead += [(page.name, name) for name in files if not (page.parent / name).exists()]
    assert dead == []
