"""Pages that need nothing but themselves, are written once, and trust no record."""

import io
import json
import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from focusing.reports.figures import gallery
from focusing.reports.figures.chart import Chart
from focusing.reports.figures.gallery import Figures, write_figures
from focusing.reports.page.exhibits import load_figures
from focusing.reports.page.site import page_names, write_page
from focusing.reports.report_cache import save_state
from focusing.results.collect import collect
from tests.unit.reports.records import add_run

EVIL = "<script>alert(1)</script>"


class Links(HTMLParser):
    """All addresses in a page, and its tags."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = dict(attrs)
        self.ids.add(named.get("id") or "")
        self.links += [(tag, named[name] or "") for name in ("src", "href") if name in named]


def make(tmp_path: Path) -> Path:
    out = tmp_path / "report"
    out.mkdir(exist_ok=True)
    pages = write_page(collect([tmp_path / "runs"]), out)
    save_state(out, "", pages)
    return pages[0]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for model, scores in (("dense", (0.80, 0.82)), ("focus_s", (0.90, 0.93))):
        for seed, score in enumerate(scores):
            add_run(folder, "table2_simple", "mnist", model, seed, [score], val=[0.5])
    return folder


def test_pages_are_self_contained_and_linked(tmp_path: Path, runs: Path) -> None:
    index = make(tmp_path)
    pages = sorted((tmp_path / "report" / "runs").glob("*.html"))
    assert len(pages) == 4
    for page in (index, *pages):
        links = Links(page)
        assert "link" not in links.tags
        for tag, link in links.links:
            if link.startswith("#"):
                assert link[1:] in links.ids, link
            elif tag == "a":
                assert "//" not in link
                assert (page.parent / link.partition("#")[0]).exists() or "tables/" in link
            else:
                assert link.startswith("data:")
        assert "default-src 'none'" in page.read_text()
    for title, protocol in (("Δ", "best_test"), ("holdout", "holdout")):  # what filters hide
        assert f'data-column="{protocol}">{title}</th>' in index.read_text()
    dense, focused = (
        {page.name for page in pages if f"<h1>{name} on" in page.read_text()}
        for name in ("Dense", "Focus-s")
    )
    for page in pages:  # the repeats, and the dense twin with the same seed
        links = [link for _, link in Links(page).links if link.startswith("table2_simple_")]
        assert len(links) == 1 + (page.name in focused)
        assert [link[-6] == page.name[-6] for link in links if link in dense - {page.name}] == (
            [True] if page.name in focused else [False]
        )


def test_whatever_a_record_says_is_text(tmp_path: Path) -> None:
    folder = add_run(
        tmp_path / "runs", "e", "mnist", "dense", 0, [0.5], source=EVIL, measured={EVIL: EVIL}
    )
    record = json.loads((folder / "result.json").read_text())
    record["experiment"] = record["config"]["name"] = EVIL
    record["config"]["model"]["name"] = f"focus{EVIL}"
    (folder / "result.json").write_text(json.dumps(record))
    add_run(tmp_path / "runs", "e", EVIL, "dense", 1, [], status="failed", error=f"</pre>{EVIL}")
    index = make(tmp_path)
    for page in (index, *(tmp_path / "report" / "runs").glob("*.html")):
        text = page.read_text()
        assert EVIL not in text
        assert Links(page).tags.count("script") == 2
        assert "&lt;script&gt;alert(1)" in text
    assert not list(tmp_path.glob("report/runs/*<*"))


def test_only_pages_of_changed_runs_are_written_again(tmp_path: Path, runs: Path) -> None:
    make(tmp_path)
    pages = {page.name: page for page in (tmp_path / "report" / "runs").glob("*.html")}
    for page in pages.values():
        os.utime(page, (1, 1))
    first, second, *_, last = collect([runs]).runs
    path = first.path / "result.json"
    path.write_text(path.read_text().replace('"wall_seconds": 1.5', '"wall_seconds": 98'))
    (second.path / "result.json").unlink()
    make(tmp_path)
    kept = {page.name: page.stat().st_mtime for page in (tmp_path / "report/runs").glob("*.html")}
    assert len(kept) == 3  # the page of a run that is gone goes
    changed = f"table2_simple_{first.config_hash}_seed{first.seed}.html"
    without_twin = f"table2_simple_{last.config_hash}_seed{second.seed}.html"
    assert {name for name, time in kept.items() if time != 1} == {changed, without_twin}
    assert "98.0 s" in pages[changed].read_text() or "2 min" in pages[changed].read_text()


def test_a_damaged_page_or_a_record_that_goes_meanwhile(tmp_path: Path, runs: Path) -> None:
    make(tmp_path)
    page, *_ = (tmp_path / "report" / "runs").iterdir()
    whole = page.read_bytes()
    for damaged in (b"", whole[:-1]):
        page.write_bytes(damaged)
        make(tmp_path)
        assert page.read_bytes() == whole
    collection = collect([runs])
    (collection.runs[0].path / "result.json").unlink()
    assert len(write_page(collection, tmp_path / "report")) == 1 + 3


def test_names_are_unique_in_any_file_system(tmp_path: Path) -> None:
    for experiment, fingerprint in (("e", "a"), ("e", "b"), ("E", "c")):
        add_run(
            tmp_path / fingerprint, experiment, "dna", "dense", 0, [0.5], fingerprint=fingerprint
        )
    names = page_names(collect([tmp_path]).runs).values()
    assert len({name.casefold() for name in names}) == 3


def test_failed_runs_and_smoke_tests_are_called_so(tmp_path: Path) -> None:
    add_run(tmp_path / "runs", "e", "dna", "dense", 0, [], status="failed", error="it broke\nbadly")
    index = make(tmp_path)
    [page] = (tmp_path / "report" / "runs").glob("*.html")
    assert "it broke\nbadly" in page.read_text()
    assert "1 run failed" in index.read_text()
    assert "0 finished runs" in index.read_text()
    add_run(tmp_path / "runs", "e", "dna", "dense", 1, [0.5], size="smoke")
    assert "All of these are smoke tests" in make(tmp_path).read_text()


def picture(kind: str, width: int = 4, height: int = 2, more: int = 0) -> bytes:
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, kind)
    return file.getvalue() + bytes(more)


class TestPictures:
    def chart(self, more: int = 0) -> Chart:
        tags = {"data": "mnist", "model": "dense focus_s", "size": "full"}
        return Chart(
            name="foci",
            title="Foci (e)",
            caption="Of <5> runs.",
            rows=({"x": 1},),
            plot=lambda: picture("gif", more=more),
            tags=tags,
            suffixes=(".gif",),
            section="Foci",
        )

    def test_figures_are_inside(
        self, tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        missing = {"Films": "python train.py experiment=table3_transfer"}
        monkeypatch.setattr(gallery, "all_figures", lambda _: Figures([self.chart()], missing))
        write_figures(collect([runs]), tmp_path / "report")
        index = make(tmp_path)
        [source] = [link for tag, link in Links(index).links if tag == "img"]
        assert source.startswith("data:image/gif;base64,R0lGOD")
        assert ("a", "figures/foci.csv") in Links(index).links
        text = index.read_text()
        assert "<strong>Foci (e)</strong> Of &lt;5&gt; runs." in text
        assert (
            'id="figure-foci" data-size="full" data-data="mnist" data-model="dense focus_s"' in text
        )
        # One command, for a table and a figure.
        assert text.count("experiment=table3_transfer</code>") == 1
        assert "transfer learning with VGG16; Films</dd>" in text

    def test_what_is_too_large_is_linked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gallery, "all_figures", lambda _: Figures([self.chart(4_000_000)]))
        write_figures(collect([]), tmp_path)
        [[shown]] = load_figures(tmp_path)["sections"].values()
        assert shown["source"] == ""
        assert shown["files"] == ["foci.gif", "foci.csv"]

    def files(self, tmp_path: Path, **contents: bytes) -> dict[str, Any]:
        names = [f"a.{kind}" for kind in (*contents, "csv")]
        entry = {
            "name": "a",
            "title": "t",
            "caption": "c",
            "section": "s",
            "tags": {},
            "files": names,
        }
        folder = tmp_path / "figures"
        folder.mkdir(parents=True)
        for kind, content in contents.items():
            (folder / f"a.{kind}").write_bytes(content)
        (folder / "index.json").write_text(json.dumps({"figures": [entry], "missing": []}))
        [[shown]] = load_figures(tmp_path)["sections"].values()
        return dict(shown)

    @pytest.mark.parametrize(("size", "kind"), [(300_000, "svg+xml"), (300_001, "png")])
    def test_a_large_svg_is_shown_as_png(self, tmp_path: Path, size: int, kind: str) -> None:
        shown = self.files(tmp_path, svg=bytes(size), png=picture("png"))
        assert shown["source"].startswith(f"data:image/{kind};base64,")

    @pytest.mark.parametrize(("inches", "wide"), [(3.4, False), (7.0, True)])
    def test_wide_ones_have_a_row_of_their_own(
        self, tmp_path: Path, inches: float, wide: bool
    ) -> None:
        drawn = f'<svg viewBox="0 0 {72 * inches} 10"></svg>'.encode()
        painted = io.BytesIO()
        Image.new("L", (round(300 * inches), 9)).save(painted, "png", dpi=(300, 300))
        for kind, content in (("svg", drawn), ("png", painted.getvalue())):
            shown = self.files(tmp_path / kind, **{kind: content})
            assert (shown["wide"], shown["inches"]) == (wide, pytest.approx(inches, rel=1e-3))

    def test_a_report_without_figures(self, tmp_path: Path) -> None:
        assert not any(load_figures(tmp_path).values())
