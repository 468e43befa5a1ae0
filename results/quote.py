"""Put tables of results/report into REPRODUCTION.md: python results/quote.py, or make results.

A table goes between ``<!-- table NAME -->`` and ``<!-- end -->``; nobody types a number there.
"""

import re
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parent / "REPRODUCTION.md"
BLOCK = re.compile(r"<!-- table (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def quoted(text: str) -> str:
    """The text with each table as it is now, without its title."""

    def block(found: re.Match[str]) -> str:
        name = found[1]
        _, _, table = (HERE / "report" / "tables" / f"{name}.md").read_text().partition("\n\n")
        return f"<!-- table {name} -->\n{table.strip()}\n<!-- end -->"

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    DOCUMENT.write_text(quoted(DOCUMENT.read_text()))
