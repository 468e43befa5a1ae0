"""What the site shows of other folders: figures of results/, options of conf/, the commands."""

import argparse
import html
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
REPRODUCTION = ROOT / "REPRODUCTION.md"
FIGURE = re.compile(r"(?:\.\./)+results/report/figures/([\w.-]+\.(?:png|gif|svg))")
OUTSIDE = re.compile(r"(?<!!)\[([^\]]*)\]\((?:\.\./)+([\w./-]+)\)")
"""Links to files of the repository that are no pages; those to pages stay."""
GROUPS = ("data", "model", "dynamic", "optim", "protocol", "trainer", "callbacks", "logger",
          "experiment", "variant", "size", "debug", "hydra/launcher", "hydra/sweeper")  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Add the results, and the figures that pages show."""
    results = REPRODUCTION.read_text().replace("](docs/", "](")
    results = re.sub(r"\]\((?=results/|conf/|benchmarks/)", "](../", results)
    files.append(File.generated(config, "reproduction.md", content=results))
    text = "".join(path.read_text() for path in Path(config["docs_dir"]).rglob("*.md")) + results
    for name in sorted(set(FIGURE.findall(text))):
        source = ROOT / "results" / "report" / "figures" / name
        files.append(File.generated(config, f"figures/{name}", abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Links that are right in the repository become right on the site."""
    up = "../" * page.file.src_uri.count("/")
    markdown = FIGURE.sub(rf"{up}figures/\1", markdown)
    markdown = re.sub(r"\((?:\.\./)+REPRODUCTION\.md\)", f"({up}reproduction.md)", markdown)
    docs = Path(config["docs_dir"])
    here = (docs / page.file.src_uri).parent

    def keep_page(link: re.Match[str]) -> str:
        target = (here / link[0].partition("](")[2][:-1]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        return f"`{link[2]}`" if link[1] == link[2] else f"{link[1]} (`{link[2]}`)"

    markdown = OUTSIDE.sub(keep_page, markdown)
    if "<!-- options -->" in markdown:
        markdown = markdown.replace("<!-- options -->", options())
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", commands())
    return markdown


def options() -> str:
    """Every file of every group: what it is, and its options with their comments."""
    conf = ROOT / "conf"
    parts = ["## The run\n", _table(conf / "train.yaml")]
    for group in GROUPS:
        parts.append(f"\n## {group}\n")
        for path in sorted((conf / group).glob("*.yaml")):
            parts += [f"\n### {group}={path.stem}\n", _about(path), _table(path)]
    return "\n".join(parts)


def _about(path: Path) -> str:
    lines = [line for line in path.read_text().splitlines() if "@package" not in line]
    comment = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# "))
    return " ".join(comment) + "\n"


def _table(path: Path) -> str:
    rows = []
    for line in path.read_text().splitlines():
        option = re.match(r"( *)([\w.]+):(?: +([^ #].*?))?(?: +# *(.*))?$", line)
        if option and option[2] not in ("defaults", "_target_") and "- " not in option[1]:
            name = "&nbsp;&nbsp;" * (len(option[1]) // 2) + f"`{option[2]}`"
            value = f"`{option[3]}`" if option[3] and "|" not in option[3] else ""
            comment = html.escape(option[4] or "").replace("|", "&#124;")
            rows.append(f"| {name} | {value} | {comment} |")
    head = ["| option | default | |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""]) if rows else ""


def commands() -> str:
    """The help of every command."""
    from focusing.cli import build_parser

    _, parsers = build_parser()
    parts = []
    for name, parser in parsers.items():
        parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=96)
        text = parser.format_help() if name != "train" else "python train.py --help\n"
        parts.append(f"## focusing {name}\n\n```text\n{text}```\n")
    return "\n".join(parts)
