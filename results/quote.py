"""Write REPRODUCTION.md, docs/beyond.md and what README says of them: make results.

The texts are templates beside this file (``*.md.j2``). Every number in them is looked up in the
tables of ``results/report``: ``row(table, column=value).mean``. A sentence that is true of some
numbers only stands in ``{% call claim(condition) %} ... {% endcall %}``: if
new records make the condition false, this command and the tests name the sentence.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any

import evidence
import speed
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from focusing.reports.names import DATA, MODELS
from focusing.reports.paper import paper, published_tables
from focusing.reports.tables import NOTHING, number, p_value, signed

HERE = Path(__file__).parent
ROOT = HERE.parent
LOOKUPS = (
    *("row", "rows", "chosen", "first_of", "size_of", "differences", "significant", "named"),
    *(
        "known_data",
        "still_open",
        "never_compared",
        "learning_and_locality",
        "optimism",
        "penalties",
        "local_data",
        "welch_p",
    ),
)
PHRASES = ("interval", "off_paper", "tested", "runs", "listed", "changed", "with_interval")
"""What templates call of evidence.py, as functions and as filters."""
SPEEDS = ("speed", "network_speed", "processors")
"""And of speed.py."""
WIDTH = 110
BLOCK = re.compile(r"(<!-- from (\w+) -->).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    """Write the texts; 1 if the records contradict a sentence."""
    texts, false = written()
    for name, content in texts.items():
        (ROOT / name).write_text(content)
    for sentence in false:
        print(f"The records no longer say: {sentence}", file=sys.stderr)
    return 1 if false else 0


def written() -> tuple[dict[str, str], list[str]]:
    """The texts by the names of their files, and the sentences that are no longer true."""
    false: list[str] = []

    def claim(condition: Any, caller: Callable[[], str]) -> str:
        sentence = caller()
        if not condition:
            false.append(" ".join(sentence.split()))
        return sentence

    environment = Environment(  # noqa: S701  Markdown, from records of our own
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.globals.update({name: getattr(evidence, name) for name in LOOKUPS})
    environment.globals.update({name: getattr(speed, name) for name in SPEEDS})
    environment.globals.update(
        claim=claim,
        paper=paper(),
        published=published_tables(),
        data_names=DATA,
        model_names=MODELS,
        nothing=NOTHING,
    )
    environment.tests.update(artefact=evidence.artefact, significant=evidence.significant)
    environment.filters.update(num=number, diff=signed, p=p_value)
    environment.filters.update({name: getattr(evidence, name) for name in PHRASES})
    readme = environment.get_template("readme.md.j2")
    blocks = {
        name: "".join(block(readme.new_context())).strip() for name, block in readme.blocks.items()
    }
    around = (ROOT / "README.md").read_text()
    texts = {
        "REPRODUCTION.md": _filled(environment.get_template("reproduction.md.j2").render()),
        "docs/beyond.md": _filled(environment.get_template("beyond.md.j2").render()),
        "README.md": BLOCK.sub(
            lambda mark: f"{mark[1]}{_spaced(blocks[mark[2]], mark[0])}{mark[3]}", around
        ),
    }
    return texts, false


def _filled(text: str) -> str:
    """Paragraphs and lists in lines of equal length, tables without blanks."""
    parts = re.sub(r"\n{3,}", "\n\n", text).strip().split("\n\n")
    return "\n\n".join(map(_part, parts)) + "\n"


def _part(part: str) -> str:
    if part.startswith("|"):
        return re.sub(r" *\| *", "|", part)
    if part.startswith(("```", "#", "![")):
        return part
    return "\n".join(map(_lines, _items(part)))


def _items(part: str) -> list[str]:
    return re.split(r"\n(?=- )", part)


def _lines(item: str) -> str:
    item = " ".join(item.split())
    indent = "  " if item.startswith("- ") else ""
    return fill(
        item, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _spaced(text: str, before: str) -> str:
    """As a paragraph if it was one, else within its line."""
    return f"\n{_filled(text)}" if "\n" in before else text


if __name__ == "__main__":
    sys.exit(main())
