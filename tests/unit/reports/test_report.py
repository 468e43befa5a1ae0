"""``focusing report`` and its server, in this process."""

import os
import threading
import urllib.error
import urllib.request
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from focusing.errors import UserError
from focusing.reports import report, terminal
from focusing.reports.report import write_report
from focusing.reports.report_cache import STATE_FILE, is_up_to_date, report_state, save_state
from focusing.reports.serve import Server, serve
from focusing.results.collect import Collection, collect
from tests.command_line import archive
from tests.command_line import report as main
from tests.unit.reports.records import add_run, add_runs


@pytest.fixture(autouse=True)
def only_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "WRITERS", {})  # figures and the page have tests of their own


def test_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("outputs", "results"):
        add_run(tmp_path / place, "mine", "dna", "dense", 0, [0.5])
    add_run(tmp_path / "results", "mine", "dna", "dense", 1, [0.25])
    add_run(tmp_path / "results", "mine", "dna", "dense", 2, [], status="failed", error="no")
    (tmp_path / "outputs" / "broken").mkdir()
    (tmp_path / "outputs" / "broken" / "result.json").write_text("{")
    main([])
    printed = capsys.readouterr()
    assert "nothing is compared" in printed.out
    assert printed.out.splitlines()[-1] == "2 runs, 1 failed, 1 copy left out: report/index.html"
    assert printed.err.startswith("Left out a record that cannot be read: ")
    assert (tmp_path / "report" / "tables" / "unreadable.csv").read_text() == (
        f"file,reason\n{tmp_path.name}/outputs/broken/result.json,not JSON\n"
    )
    assert "37.50 ± 17.68" in (tmp_path / "report" / "tables" / "all.md").read_text()


def test_names_of_folders_are_not_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = add_run(tmp_path / "a[red]", "mine", "dna", "dense", 0, [0.5])
    monkeypatch.chdir(tmp_path)
    main(["a[red]", "--out", "b[bold]/c[/d]"])
    assert capsys.readouterr().out.splitlines()[-1] == "1 run: b[bold]/c[/d]/index.html"
    (run / "figures").mkdir()
    (run / "figures" / "losses.png").touch()
    terminal.show(Namespace(run=run))
    assert capsys.readouterr().out.splitlines()[-1] == str(run / "figures" / "losses.png")


def test_archives_and_damaged_records_are_told(tmp_path: Path) -> None:
    add_run(tmp_path / "outputs", "mine", "dna", "dense", 0, [0.5])
    archive([str(tmp_path / "outputs"), "--out", str(tmp_path / "results")])
    with pytest.raises(UserError, match=r"no runs below it, but archived records: focusing report"):
        terminal.show(Namespace(run=tmp_path / "results"))
    [file] = (tmp_path / "results").rglob("*.xz")
    file.write_bytes(b"torn")
    with pytest.raises(UserError, match="No finished runs .* Left out a record that cannot be"):
        main([str(tmp_path / "results"), "--out", str(tmp_path / "report")])


def test_a_summary_of_many_runs_fits_on_a_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"dense": [0.5, 0.51, 0.52], "focus_s": [0.6, 0.61, 0.62], "fixed_s": [0.5, 0.6, 0.7]}
    for width in range(12):
        options = {"model.hidden": [width]}
        add_runs(tmp_path / "runs", "mine", "dna", models, options=options)
    add_runs(tmp_path / "runs", "other", "dna", {name: [0.5, 0.6] for name in models})
    add_runs(tmp_path / "runs", "table2_simple", "mnist", models)
    monkeypatch.chdir(tmp_path)
    main(["runs"])
    first = capsys.readouterr().out
    assert len(first.splitlines()) <= 20
    row = "Focus-s − Dense   +10.00 [+7.73, +12.27]   5.1e-4   3 (best_test)"
    assert any("MNIST" in line and row in line for line in first.splitlines())
    assert "DNA, hidden layers [0]" in first
    assert "... and 4 more: report/tables/all.md" in first
    monkeypatch.setattr("focusing.reports.tables.files.all_tables", None)  # nothing is made again
    monkeypatch.setattr("focusing.reports.report.all_tables", None)
    main(["runs"])
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "There is no folder outputs or results here; name one."),
        (["nowhere"], "nowhere is not a folder."),
        (["."], "No finished runs below .: python train.py makes one."),
        ([".", "--open", "3"], "focusing report: unrecognized arguments: --open"),
        ([".", "--serve", "x"], "x is not a folder."),
        (
            [".", "--port", "x"],
            "focusing report: argument --port: invalid int value: 'x'",
        ),
    ],
)
def test_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        main(arguments)
    assert str(error.value).startswith(sentence)


def test_what_comes_after_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_writer.py").write_text(
        "def write(collection, out, progress):\n"
        "    tables = sorted(path.name for path in out.glob('tables/*.md'))\n"
        "    (out / 'index.html').write_text(f'{len(collection.runs)} {tables}')\n"
        "    return [out / 'index.html']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    writers = {"own": ("own_writer", "write")}
    monkeypatch.setattr(report, "WRITERS", writers)
    add_run(tmp_path / "runs", "mine", "dna", "dense", 0, [0.5])
    write_report(collect([tmp_path / "runs"]), tmp_path / "report")
    page = tmp_path / "report" / "index.html"
    assert page.read_text().startswith("1 ['all.md'")
    page.write_text("kept")
    write_report(collect([tmp_path / "runs"]), tmp_path / "report")
    assert page.read_text() == "kept"  # of the same records nothing is made again
    page.unlink()
    write_report(collect([tmp_path / "runs"]), tmp_path / "report")
    assert page.exists()
    (tmp_path / "report" / "mine.md").touch()
    add_run(tmp_path / "others", "other", "dna", "dense", 0, [0.5])
    write_report(collect([tmp_path / "others"]), tmp_path / "report")
    left = {path.name for path in tmp_path.glob("report/**/*.md")}
    assert "experiment_mine_full_text.md" not in left  # its runs are gone
    assert {"experiment_other_full_text.md", "mine.md"} <= left


def test_the_state_follows_records_and_arrays(tmp_path: Path) -> None:
    folder = add_run(tmp_path, "e", "dna", "dense", 0, [0.5])
    (folder / "focus.npz").write_bytes(b"a")
    state = report_state(collect([tmp_path]))
    assert report_state(collect([tmp_path])) == state
    os.utime(folder / "focus.npz", ns=(0, 0))
    touched = report_state(collect([tmp_path]))
    add_run(tmp_path, "e", "dna", "dense", 1, [0.5])
    assert len({state, touched, report_state(collect([tmp_path]))}) == 3
    collection = collect([tmp_path])
    (folder / "result.json").unlink()  # meanwhile
    assert report_state(collection)


@pytest.mark.parametrize("damage", ["", "[", "[]", '{"files": 3}'])
def test_it_is_kept_until_its_state_or_a_file_changes(tmp_path: Path, damage: str) -> None:
    page = tmp_path / "index.html"
    assert not is_up_to_date(tmp_path, "a")
    page.write_text("x")
    save_state(tmp_path, "a", [page])
    assert is_up_to_date(tmp_path, "a")
    assert not is_up_to_date(tmp_path, "b")
    save_state(tmp_path, "a", [])
    assert not page.exists()  # what a report no longer consists of goes
    (tmp_path / STATE_FILE).write_text(damage)
    assert not is_up_to_date(tmp_path, "a")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "runs").mkdir()
    with Server([tmp_path / "runs"], tmp_path / "report", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def get(server: Server, path: str) -> str:
    with urllib.request.urlopen(  # noqa: S310 - our own server
        f"http://127.0.0.1:{server.server_port}{path}", timeout=5
    ) as answer:
        return str(answer.read().decode())


def test_the_report_is_written_anew_when_a_run_has_finished(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = get(server, "/")
    assert "The report is being made" in making
    assert '!== "making"' in making
    assert server.update() is None
    waiting = get(server, "/")
    assert "No finished runs yet" in waiting
    assert "location.reload" in waiting
    assert get(server, "/version") == "0"
    add_run(tmp_path / "runs", "mine", "dna", "dense", 0, [0.5])
    shown: list[str] = []

    def write(collection: Collection, out: Path) -> None:
        shown.extend([get(server, "/"), get(server, "/version")])
        write_report(collection, out)

    monkeypatch.setattr("focusing.reports.serve.write_report", write)
    assert server.update() is not None
    assert "The report is being made" in shown[0]
    assert shown[1] == "making"
    assert server.update() is None
    assert get(server, "/version") == "1"
    assert "Experiment mine" in get(server, "/tables/all.md")
    add_run(tmp_path / "runs", "mine", "dna", "dense", 1, [0.5])
    assert server.update() is not None
    assert get(server, "/version?again") == "2"


def test_the_page_reloads_itself_but_not_its_file(server: Server, tmp_path: Path) -> None:
    page = tmp_path / "report" / "index.html"
    page.write_text("<p>mine")
    for path in ("/", "/index.html"):
        shown = get(server, path)
        assert shown.startswith("<p>mine")
        assert "location.reload" in shown
    assert page.read_text() == "<p>mine"
    with pytest.raises(urllib.error.HTTPError):
        get(server, "/nothing.html")


def test_nothing_outside_the_report_is_shown(server: Server, tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    (tmp_path / "report" / ".records.json").write_text("paths of this machine")
    for path in ("/../secret.html", "/%2e%2e/secret.html", "/.records.json", "/%2Erecords.json"):
        with pytest.raises(urllib.error.HTTPError):
            get(server, path)


def test_pages_of_other_names_are_refused(server: Server) -> None:
    address = f"http://127.0.0.1:{server.server_port}/"
    foreign = urllib.request.Request(address, headers={"Host": "evil.example:80"})  # noqa: S310
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(foreign, timeout=5)  # noqa: S310 - our own server


def test_a_browser_that_goes_is_no_news(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    for error in (BrokenPipeError(), ConnectionResetError(), ValueError("news")):
        try:
            raise error
        except (OSError, ValueError):
            server.handle_error(None, ("127.0.0.1", 1))
        assert ("news" in capsys.readouterr().err) == isinstance(error, ValueError)


def test_an_error_does_not_end_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    looks = iter([OSError("disk full"), OSError("disk full"), KeyboardInterrupt()])

    def look(*_: object) -> None:
        raise next(looks)

    monkeypatch.setattr("focusing.reports.serve.collect", look)
    monkeypatch.setattr("focusing.reports.serve.MIN_INTERVAL", 0.01)
    with pytest.raises(KeyboardInterrupt):
        serve([tmp_path], tmp_path / "out", 0, Console())
    assert capsys.readouterr().out.count("No new report: OSError: disk full") == 1


def test_a_port_in_use_is_a_sentence(server: Server, tmp_path: Path) -> None:
    from rich.console import Console

    with pytest.raises(UserError, match=f"Port {server.server_port} cannot be used"):
        serve([tmp_path], tmp_path / "other", server.server_port, Console())
