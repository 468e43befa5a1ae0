"""Runs the queue of long experiments behind REPRODUCTION.md: make campaign.

Each entry of results/campaign.yaml is a command of the framework. Runs that are published in
results/ count as finished, so a new machine begins with the first run that is not. When an entry
ends or is stopped, the records of its finished runs are archived and committed. Ctrl-C stops the
queue, and the same command continues it. While the file outputs/.pause exists, nothing runs: create
it before a benchmark.
"""

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
QUEUE = "results/campaign.yaml"
OPTIONS = (
    "hydra/launcher=local",
    "hydra.launcher.threads=1",
    "sweep.archive=results",
    "figures=false",
)
"""One run per core and one thread per run: then nothing waits, and CPU times can be compared."""


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Run all unfinished entries; arguments such as hydra.launcher.gpus=8 go to every command."""
    queue = root / QUEUE
    failed = 0
    for place, entry in enumerate(yaml.safe_load(queue.read_text())):
        if entry["state"] == "done":
            continue
        print(f"== {entry['purpose']}\n== train.py {entry['command']}", flush=True)
        command = ["train.py", "-m", *entry["command"].split(), *OPTIONS, *arguments]
        code = subprocess.run([sys.executable, *command], cwd=root).returncode  # noqa: S603
        stopped = code in (130, 143) or code < 0
        if any((root / "outputs").glob("*/*/*/result.json")):  # or all were published before
            archive = ["-m", "focusing.cli", "archive", "outputs"]
            subprocess.run([sys.executable, *archive], cwd=root, check=True)  # noqa: S603
        if not stopped:
            failed += code != 0
            set_state(queue, place, "failed" if code else "done")
        git(root, "add", "results")
        git(root, "commit", "--quiet", "--message", f"Campaign: {entry['purpose']}")
        if stopped:
            return code
    return 1 if failed else 0


def set_state(queue: Path, place: int, state: str) -> None:
    """Write the state of an entry, and keep the comments of the file."""
    lines = queue.read_text().splitlines(keepends=True)
    states = [number for number, line in enumerate(lines) if line.lstrip().startswith("state:")]
    lines[states[place]] = f"  state: {state}\n"
    queue.write_text("".join(lines))


def git(root: Path, *arguments: str) -> None:
    """Run git, if this is a repository."""
    if (root / ".git").exists():
        subprocess.run(["git", *arguments], cwd=root)  # noqa: S603, S607


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
