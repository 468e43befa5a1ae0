"""The documentation site builds without warnings and needs no network; the notebooks run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest

from tests.integration.chromium import dump, needs_chromium
from tests.integration.commands import ROOT
from tests.integration.forked import run_forked

pytestmark = pytest.mark.slow
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
CREDIT = "https://squidfunk.github.io/mkdocs-material/"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_pages_fetch_nothing_and_have_pictures(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 20
    for page in pages:
        text = page.read_text()
        fetched = re.findall(r'(?:src|<link[^>]*href)="?(https?://[^">]+)', text)
        assert fetched == [], page
        pictures = re.findall(r'<img[^>]*src="([^"]+)"', text)
        assert pictures, page
        assert all((page.parent / picture).exists() for picture in pictures), page


@needs_chromium
def test_search_works_without_a_server(site: Path, tmp_path: Path) -> None:
    document = dump(f"{(site / 'index.html').as_uri()}?q=repulsion", tmp_path)
    results = re.findall(r'href="([^"]+)"[^>]*class="md-search-result__link"', document)
    assert any("explanation/stuck.html" in result for result in results)


def test_reference_is_generated(site: Path) -> None:
    options = (site / "reference/options.html").read_text()
    assert "any class of torch.optim" in options
    assert "model=cnn_focus" in options
    assert "drop phi &lt; t" in (site / "reference/commands.html").read_text()
    assert "topology" in (site / "reference/python.html").read_text()


def test_python_of_the_reports_page_runs() -> None:
    page = (ROOT / "docs/reports.md").read_text().partition("## In Python")[2]
    code = "".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    start = [sys.executable, "-c", code]
    done = subprocess.run(start, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Comparison(" in done.stdout


def test_tutorial_data_set_trains(tmp_path: Path) -> None:
    text = (ROOT / "docs/tutorials/own_data.md").read_text()
    for name, content in re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', text, flags=re.DOTALL):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    command = re.search(r"^PYTHONPATH=. python train.py (.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert command
    words = command[1].replace("\\\n", " ").split()
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    start = [sys.executable, str(ROOT / "train.py"), *words, "figures=false", "callbacks=none"]
    done = subprocess.run(start, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    score = re.search(r"best_test\) +([\d.]+) %", done.stdout)
    assert score
    assert float(score[1]) > 85  # chance: 25


@pytest.mark.parametrize("script", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_run_and_match_their_scripts(script: Path, tmp_path: Path) -> None:
    notebook = jupytext.read(script)
    stored = jupytext.read(script.with_suffix(".ipynb"))
    cells = [(cell.cell_type, cell.source) for cell in notebook.cells]
    assert cells == [(cell.cell_type, cell.source) for cell in stored.cells], "make notebooks"
    done = run_forked([sys.executable, str(script)], cwd=tmp_path, MPLBACKEND="agg")
    assert done.returncode == 0, done.stderr
