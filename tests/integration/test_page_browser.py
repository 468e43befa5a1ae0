"""The report page in a real browser: filters, run pages, and reloading while a sweep runs."""

import json
import re
import threading
from pathlib import Path

import numpy as np
import pytest

from focusing.compose import compose_config
from focusing.reports import report
from focusing.reports.foci import read_foci
from focusing.reports.page.site import write_page
from focusing.reports.serve import Handler, Server
from focusing.reports.tables.files import write_tables
from focusing.results.collect import collect
from focusing.run import train
from tests.integration.chromium import chromium, dump, needs_chromium, operate
from tests.unit.reports.records import add_run

pytestmark = needs_chromium

FILTERS = """
const tick = (name, value) => document.querySelector(`[name=${name}][value=${value}]`).click();
const inTable = (what) => visible(`#table-experiment_mine_full_text ${what}`);
const state = () => ({
  runs: visible("#list tbody tr").length,
  shown: document.getElementById("shown").textContent,
  models: [...new Set(inTable("tbody tr").map((row) => row.dataset.model))],
  heads: inTable("tbody th").map((element) => element.innerText.trim()),
  columns: inTable("thead th").map((element) => element.textContent),
  listed: visible("#list thead th").map((element) => element.textContent),
  protocols: [...new Set(visible("#focused tbody tr").map((row) => row.dataset.protocol))],
  figures: visible("#figures figure").length,
  verdict: visible("#counted").map((element) => element.textContent.trim().split(";")[0]),
  sections: visible("section.pictured, .index li a").length,
  menus: all("#filters summary").map((element) => element.textContent),
});
result.before = state();
all("#filters summary")[2].click();
result.open = visible("#filters [name=data]").length;
tick("model", "focus_s");
result.model = state();
tick("protocol", "last");
result.protocol = state();
document.querySelector("#filters [type=reset]").click();
await wait(10);
result.reset = state();
tick("data", "dna");
result.data = state();
tick("data", "dna");
tick("size", "smoke");
result.size = state();
tick("size", "smoke");
document.querySelector("#figures a.zoom").click();
const large = document.getElementById("large");
result.large = [large.open, large.querySelector("img").src.slice(0, 18)];
document.querySelector("#large button").click();
await wait(10);
result.closed = !large.open;
const search = document.getElementById("search");
search.value = "mine seed=1";
search.dispatchEvent(new Event("input"));
result.searched = state().runs;
search.value = "";
search.dispatchEvent(new Event("input"));
const head = () => visible("#list th button").find((element) => element.textContent === "holdout");
const scores = () => visible("#list tbody tr").map((row) => row.cells[7].textContent);
head().click();
result.up = scores();
head().click();
result.down = scores();
result.sort = head().parentElement.getAttribute("aria-sort");
result.link = document.querySelector("#list a").getAttribute("href");
result.kept = JSON.parse(sessionStorage.getItem("focusing")).order.down;
const named = (element) => element.labels?.length || element.textContent;
result.unnamed = all("input, select, button").filter((element) => !named(element)).length;
result.wide = document.documentElement.scrollWidth - innerWidth;
"""
SLIDER = """
const slider = document.getElementById("epoch");
const picture = () => document.getElementById("focus").innerHTML;
const read = () => document.getElementById("at").textContent;
result.charts = all("#charts figure").map((element) => element.querySelector("strong").textContent);
result.last = read();
const last = picture();
slider.value = 0;
slider.dispatchEvent(new Event("input"));
result.first = read();
result.moved = picture() !== last;
result.label = document.querySelector("#focus svg").getAttribute("aria-label");
document.getElementById("play").click();
result.playing = document.getElementById("play").textContent;
await wait(2000);
result.played = [read(), document.getElementById("play").textContent, picture() === last];
const strokes = all("#focus path.focus").map((line) => getComputedStyle(line).stroke);
result.colours = new Set(strokes).size;
result.twin = document.querySelector("main > p a")?.textContent ?? "";
result.config = document.querySelector("#config details").open;
result.areas = all("#focus path.area").map((element) => element.getAttribute("d"));
result.drawn = all("#focus path.focus").map((element) => element.getAttribute("d"));
const chart = document.querySelector("#charts figure > svg");
const values = () => all("#charts figure:first-child output").map((element) => element.textContent);
const end = values();
chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
result.told = values().join() !== end.join() && values().every((element) => /\\d/.test(element));
result.lines = all("#charts path.line").every((line) => !line.getAttribute("d").includes("NaN"));
const move = (id, value) => {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event("input"));
};
const framed = (name) => +document.querySelector("#window .window").getAttribute(name);
const box = () => ["x", "y", "width", "height"].map(framed);
move("sample", 1);
result.window = box();
move("window-epoch", 0);
result.before = box();
result.samples = ["#sampled", "#window-at"].map((id) => document.querySelector(id).textContent);
document.getElementById("window-play").click();
await wait(2000);
result.film = [box(), document.getElementById("window-play").textContent];
result.views = all("#window > svg").map((svg) => svg.getAttribute("viewBox"));
result.wide = document.documentElement.scrollWidth - innerWidth;
"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><style>text{}</style></svg>'
FIGURES = [
    {"name": name, "title": name, "caption": "", "section": "Foci", "files": ["a.svg"]}
    | {"tags": {"model": models, "experiment": "mine"}}
    for name, models in (("film", "dense"), ("forest", "dense focus_s"))
]
WINDOWS = {
    "images": np.arange(110, dtype=np.uint8).reshape(2, 5, 11, 1),
    "epoch": np.array([0, 3]),
    "centre": np.array([[[[0.5, 0.5]], [[0.25, 0.25]]], [[[0.5, 0.5]], [[0.75, 0.75]]]]),
    "extent": np.full((2, 2, 1, 2), 0.5),
}
"""Windows of dynamic foci: (epoch, sample, glimpse, axis)."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report on four real runs and three made-up ones."""
    folder = tmp_path_factory.mktemp("page")
    small = ["data.n_samples=200", "trainer.max_epochs=3", "figures=false", "protocol=holdout"]
    for model in ("dense", "focus_s"):
        for seed in (0, 1):
            mine = [f"model={model}", f"seed={seed}", "name=mine"]
            train(compose_config(*small, *mine, f"paths.output_dir={folder / 'outputs'}"))
    for path in (folder / "outputs").glob("*/*/seed=*/focus.npz"):
        np.savez(path.with_name("windows.npz"), **WINDOWS)
    for seed in (0, 1):
        add_run(folder / "outputs", "mine", "dna", "dense", seed, [0.5], val=[0.5])
    add_run(folder / "outputs", "mine", "mnist", "dense", 0, [0.5], val=[0.5], size="smoke")
    out = folder / "report"
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "a.svg").write_text(SVG)
    (out / "figures" / "index.json").write_text(json.dumps({"figures": FIGURES, "missing": []}))
    collection = collect([folder / "outputs"])
    write_tables(collection, out)
    write_page(collection, out)
    return out


def test_filters(made: Path, tmp_path: Path) -> None:
    answer = operate(made / "index.html", FILTERS, tmp_path)
    assert answer["problems"] == []
    before, model, protocol = answer["before"], answer["model"], answer["protocol"]
    assert (before["runs"], before["shown"], before["figures"]) == (7, "7 runs", 2)
    assert before["models"] == ["dense", "focus_s"]
    assert before["protocols"] == ["holdout"]  # the default
    assert answer["open"] == 3
    assert (model["runs"], model["shown"], model["figures"]) == (2, "2 of 7 runs", 1)
    assert model["models"] == ["focus_s"]
    assert [head.splitlines()[0] for head in model["heads"]] == ["Synthetic"]  # again
    assert model["menus"] == ["Experiment", "Size", "Data set", "Focus-s", "Protocol"]
    assert before["verdict"] == ["0 of 1 comparisons: Focus-s beats Dense"]
    assert [name for name in before["columns"] if name not in protocol["columns"]] == [
        "best_test", "holdout",
    ]  # fmt: skip
    assert "last" in protocol["listed"]
    assert "best_test" not in protocol["listed"]
    assert protocol["protocols"] == ["last"]
    assert answer["reset"] == before
    assert answer["data"]["runs"] == 2
    assert answer["data"]["verdict"] == []  # no comparison is left
    size = answer["size"]
    assert (size["runs"], size["verdict"], size["heads"]) == (1, [], [])
    assert (answer["large"], answer["closed"]) == ([True, "data:image/svg+xml"], True)
    assert answer["searched"] == 3
    assert answer["up"] == sorted(answer["up"], key=float)
    assert answer["down"] == answer["up"][::-1]
    assert (answer["sort"], answer["kept"]) == ("descending", True)
    assert (made / answer["link"]).exists()
    assert answer["unnamed"] == 0
    assert answer["wide"] <= 0


def test_run_page(made: Path, tmp_path: Path) -> None:
    pages = [page for page in (made / "runs").glob("mine_*") if '"foci":[{' in page.read_text()]
    assert len(pages) == 2
    answer = operate(pages[0], SLIDER, tmp_path, width=500)
    assert answer["problems"] == []
    assert answer["charts"] == ["accuracy, %", "loss", "mean σ"]
    assert (answer["first"], answer["last"]) == ("0 of 3", "3 of 3")
    assert answer["label"] == "Foci of hidden1 after 0 epochs"
    assert answer["moved"]
    assert (answer["playing"], answer["played"]) == ("Stop", ["3 of 3", "Play", True])
    assert answer["colours"] == 4  # one per neuron
    assert (answer["twin"].startswith("The"), answer["config"]) == (True, False)
    assert answer["told"]
    assert answer["lines"]
    assert answer["wide"] <= 0  # fits a phone
    # The second sample: its window moves from the upper left to the lower right quarter.
    assert (answer["before"], answer["window"]) == ([0, 0, 6, 3], [5, 2, 6, 3])
    assert answer["samples"] == ["2 of 2", "0 of 3"]
    assert answer["film"] == [answer["window"], "Play"]
    assert answer["views"] == ["0 0 11 5", "5 2 6 3"]
    _, run_hash, seed = pages[0].stem.split("_")
    folder = made.parent / "outputs" / "mine" / run_hash / seed.replace("seed", "seed=")
    _assert_foci(folder / "focus.npz", answer["drawn"])
    assert len(answer["areas"]) == len(answer["drawn"])
    for area, line in zip(answer["areas"], answer["drawn"], strict=True):
        points = re.findall(r"[ML]([\d.]+) ([\d.]+)", area)
        inner = re.findall(r"[ML]([\d.]+) ([\d.]+)", line)
        assert points[1:-1] == inner
        assert points[0][1] == points[-1][1]  # both ends are at zero, below the line
        assert float(points[0][1]) >= max(float(y) for _, y in inner)


def _assert_foci(path: Path, drawn: list[str]) -> None:
    """Check that the curves of all neurons are the layer's phi, on one scale."""
    [foci] = read_foci(path.parent, {})
    expected = foci.smooth_phi(-1, np.linspace(0, 1, 241))[
        np.argsort(foci.mu[0, :, 0], kind="stable")
    ]
    points = [re.findall(r"[ML]([\d.]+) ([\d.]+)", path) for path in drawn]
    heights = np.array(points, float)[..., 1]
    assert heights.shape == expected.shape
    slope, offset = np.polyfit(expected.ravel(), heights.ravel(), 1)
    assert slope < 0  # the y axis points down
    np.testing.assert_allclose(slope * expected + offset, heights, atol=0.1)  # pixels


def test_phone_layout(made: Path, tmp_path: Path) -> None:
    script = """
    result.wide = document.documentElement.scrollWidth > innerWidth;
    result.plots = visible("#focused svg.plot").length;
    result.heads = visible("#focused thead").length;
    """
    answer = operate(made / "index.html", script, tmp_path, width=500)
    assert answer == {"problems": [], "wide": False, "plots": 1, "heads": 0}


def test_print(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.pdf"
    chromium((made / "index.html").as_uri(), tmp_path / "user", f"--print-to-pdf={target}")
    assert target.read_bytes().startswith(b"%PDF")
    assert target.stat().st_size > 10_000


def test_reloads_while_a_sweep_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "WRITERS", {"page": report.WRITERS["page"]})
    add_run(tmp_path / "runs", "mine", "dna", "dense", 0, [0.5])
    polls: list[str] = []
    answer = Handler.do_GET

    def answer_and_finish_a_run(self: Handler) -> None:
        polls.append(self.path)
        if polls.count("/version") == 2 and "again" not in polls:
            polls.append("again")
            add_run(tmp_path / "runs", "mine", "dna", "dense", 1, [0.5])
            assert self.server.update() is not None
        answer(self)

    monkeypatch.setattr(Handler, "do_GET", answer_and_finish_a_run)
    with Server([tmp_path / "runs"], tmp_path / "report", 0) as server:
        assert server.update() is not None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        document = dump(f"http://127.0.0.1:{server.server_port}/", tmp_path / "user", seconds=20)
        server.shutdown()
    assert "2 finished runs" in document
    assert polls.count("/") == 2  # it reloads once
