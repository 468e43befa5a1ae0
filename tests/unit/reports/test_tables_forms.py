"""A table as Markdown, LaTeX, CSV and in the terminal."""

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from focusing.reports.tables import Column, Row, Table, p_value, signed, text
from focusing.reports.tables.files import (
    document,
    escape,
    latex,
    markdown,
    records_csv,
    write_tables,
)
from focusing.reports.terminal import table_lines
from focusing.results.collect import collect
from tests.unit.reports.records import add_run

NASTY = r"50 % of a_b & {c} $x$ #1 ^2 ~3 \d <e> | *f* [g]"
TABLE = Table(
    name="t",
    title="A & B",
    columns=(Column("data"), Column("score", "right"), Column("Δ", "center")),
    rows=(
        Row((text("MNIST", "official"), text("99.25 ± 0.02", "[99.2, 99.3]", bold=True), text())),
        Row((text(NASTY), text("missing [1]", dim=True), text("−0.50†")), starts_block=True),
    ),
    notes=("Mean ± std.",),
    commands={"1": "python train.py data=a_b 'model.hidden=[8,8]'"},
    records=({"data": "a,b", "mean": 0.1}, {"data": "c", "low": None}),
)


def printed_lines(table: Table, printed: set[str] | None = None) -> str:
    file = io.StringIO()
    Console(file=file, width=80).print(*table_lines(table, printed), sep="\n")
    return file.getvalue()


def test_markdown() -> None:
    assert markdown(TABLE).splitlines() == [
        "## A & B",
        "",
        "| data | score | Δ |",
        "| :-- | --: | :-: |",
        "| MNIST<br>official | **99.25 ± 0.02**<br>[99.2, 99.3] |  |",
        r"| 50 % of a\_b & {c} $x$ #1 ^2 ~3 \\d &lt;e> \| \*f\* [g] | *missing [1]* | −0.50† |",
        "",
        "Mean ± std.",
        "",
        "Missing cells are filled by:",
        "",
        "- [1] `python train.py data=a_b 'model.hidden=[8,8]'`",
    ]


def test_without_runs_no_cell_is_missing() -> None:
    empty = Table("a", "A", (), (), ("No runs yet.",), {"1": "python train.py"})
    assert markdown(empty).splitlines() == [
        "## A", "", "No runs yet.", "", "This makes them:", "", "- `python train.py`",
    ]  # fmt: skip
    assert "[1]" not in latex(empty)


def test_csv() -> None:
    rows = list(csv.reader(io.StringIO(records_csv(TABLE.records))))
    assert rows == [["data", "mean", "low"], ["a,b", "0.1", ""], ["c", "", ""]]


def test_terminal() -> None:
    printed: set[str] = set()
    shown = printed_lines(TABLE, printed) + printed_lines(TABLE, printed)
    for part in ("A & B", "99.25 ± 0.02", "[99.2, 99.3]", "missing [1]"):
        assert shown.count(part) == 2
    assert shown.count("Mean ± std.") == 1  # a note is printed once
    long = Table("long", "L", (Column("n"),), tuple(Row((text(f"{n};"),)) for n in range(60)))
    shown = printed_lines(long)
    assert "39;" in shown
    assert "40;" not in shown
    assert "20 more settings" in shown
    assert "59;" in markdown(long)


def test_numbers() -> None:
    values = [None, 0.994, 0.5, 0.0123, 0.00096, 7.8e-6, 0.0]
    assert [*map(p_value, values)] == ["–", "0.99", "0.50", "0.012", "0.001", "7.8e-6", "0"]
    assert [*map(signed, (0.5, -0.5, -0.001, None))] == ["+0.50", "−0.50", "+0.00", "–"]


def rows_of(tabular: str) -> list[list[str]]:
    """The cells of the outermost tabular; nested ones and groups count as text."""
    body = re.sub(r"\\begin\{tabular\}\[t\]\{@\{\}.@\{\}\}.*?\\end\{tabular\}", "nested", tabular)
    lines = [line for line in body.splitlines() if line.endswith(r" \\")]
    return [re.split(r"(?<!\\)&", line.removesuffix(r" \\")) for line in lines]


def check_structure(content: str, columns: int) -> None:
    """What LaTeX would complain about."""
    bare = content.replace(r"\\", "").replace(r"\{", "").replace(r"\}", "")
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    open_ones: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", content):
        if kind == "begin":
            open_ones.append(name)
        else:
            assert open_ones.pop() == name
    assert open_ones == []
    assert bare.count("$") % 2 == 0
    assert not re.search(r"(?<!\\)[%#~^]", content)
    assert [r"\toprule" in content, r"\bottomrule" in content] == [True, True]
    assert content.isascii()
    rows = [row for row in rows_of(content) if not row[0].startswith(r"\caption")]
    assert {len(row) for row in rows} == {columns}


def test_latex_structure() -> None:
    content = latex(TABLE)
    check_structure(content, 3)
    assert r"\textbf{99.25 $\pm$ 0.02} \\ \footnotesize {[}99.2, 99.3{]}" in content
    assert len(rows_of(content)) == 1 + 2


def test_long_tables_go_over_pages() -> None:
    rows = tuple(Row((text(f"{n}"), text("a_b", "c"))) for n in range(60))
    content = latex(Table("long", "L", (Column("n"), Column("m")), rows, ("Note.",)))
    assert r"\begin{longtable}" in content
    check_structure(content, 2)


def test_a_long_head_does_not_make_its_column_wide() -> None:
    title = "foci inside at first (%)"
    content = latex(
        Table("t", "T", (Column("n"), Column(title, "right")), (Row((text("1"),) * 2),))
    )
    check_structure(content, 2)
    assert r"n & \begin{tabular}[t]{@{}r@{}}foci inside \\ at first (\%)\end{tabular} \\" in content
    assert "resizebox" not in content


def test_escaped_text_is_as_it_was() -> None:
    """Undone again, every sign is there."""
    signs = {r"\textbackslash{}": "\\", r"\textless{}": "<", r"\textgreater{}": ">"}
    signs |= {r"\textasciicircum{}": "^", r"\textasciitilde{}": "~", "{[}": "[", "{]}": "]"}
    escaped = escape(NASTY)
    for command, sign in signs.items():
        escaped = escaped.replace(command, f"\\{sign}" if sign in "{}" else sign)
    assert re.sub(r"\\([%_&{}$#])", r"\1", escaped) == NASTY


def a_report(folder: Path) -> Path:
    for seed in range(3):
        for model in ("dense", "focus_s"):
            add_run(folder, "table2_simple", "fashion", model, seed, [0.5, 0.6 + seed / 50])
            add_run(folder, "mine", "dna", model, seed, [0.7], val=[0.5])
    add_run(folder, "mine", "dna", "dense", 9, [], status="failed", error="50 % of_it {failed}\\")
    write_tables(collect([folder]), folder / "report")
    return folder / "report" / "tables"


def test_files(tmp_path: Path) -> None:
    folder = a_report(tmp_path)
    names = {path.name for path in folder.glob("*.*") if not path.name.startswith(".")}
    whole = {"table2_simple_full_text", "experiment_mine_full_text", "failed"}
    assert {f"{name}.{kind}" for name in whole for kind in ("md", "tex", "csv")} <= names
    assert {"all.md", "all.tex", "table1.md", "table3_transfer.tex"} <= names
    for name in whole:
        content = (folder / f"{name}.tex").read_text()
        header = (folder / f"{name}.md").read_text().splitlines()[2]
        check_structure(content, header.count(" | ") + 1)


def test_latex_compiles(tmp_path: Path) -> None:
    compiler = shutil.which("pdflatex") or shutil.which("tectonic")
    if compiler is None:
        pytest.skip("there is no pdflatex or tectonic here")
    folder = a_report(tmp_path)
    (folder / "nasty.tex").write_text(latex(TABLE))
    names = [path.stem for path in sorted(folder.glob("*.tex")) if path.stem != "all"]
    (folder / "all.tex").write_text(document(names))
    quiet = ["-interaction=nonstopmode", "-halt-on-error", "-draftmode"]
    options = quiet if compiler.endswith("pdflatex") else []
    done = subprocess.run(
        [compiler, *options, "all.tex"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-2000:]
