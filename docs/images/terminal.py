"""Draw what commands print, as terminal.svg and explain.svg: python docs/images/terminal.py"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
FOCUSING = [sys.executable, "-c", "from focusing.cli import main; main()"]
COMMANDS = {
    "terminal": [["train", "figures=false", "trainer.max_epochs=50"]],
    "explain": [
        ["explain", "data=fashion", "optim.lr_sigma"],
        ["explain", "model=focus_2d", "model.sigma"],
    ],
}


def draw(name: str, commands: list[list[str]]) -> None:
    """Run commands in an empty folder and save what they print."""
    console = Console(record=True, width=110, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with tempfile.TemporaryDirectory() as folder:
        for words in commands:
            command = [*FOCUSING, *words]
            done = subprocess.run(  # noqa: S603 - our own command
                command, cwd=folder, env=os.environ | {"COLUMNS": "108"},
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            console.print(Text(f"$ focusing {' '.join(words)}", style="bold"))
            console.print(Text(done.stdout.replace(f"{folder}/", "").rstrip()))
    svg = console.export_svg(title="focusing")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # it would be fetched
    svg = svg.replace("Fira Code", "DejaVu Sans Mono")
    (HERE / f"{name}.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


for name, commands in COMMANDS.items():
    draw(name, commands)
