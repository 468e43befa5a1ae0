"""Runs commands in processes that are forked from one that has imported torch, to save seconds.

Otherwise they are like processes of a shell, with their own arguments, folder, environment, output
and signals.
"""

import atexit
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from tests.forkserver import CONTEXT
from tests.integration.commands import environment


class Forked:
    """Like :class:`subprocess.Popen`.

    Args:
        command: Python, optionally ``-W error``, and a script or ``-m`` and a module.
        arguments: of the command.
        cwd: its working directory.
        group: give it a process group of its own, which can be killed as a whole.
        env: environment variables to add.
    """

    def __init__(
        self, command: list[str], *arguments: str, cwd: Path, group: bool = False, **env: str
    ) -> None:
        [_, *self.args] = [*command, *arguments]
        self._texts = [Path(tempfile.mkstemp()[1]) for _ in range(2)]
        args = (self.args, cwd, environment(**env), self._texts, group)
        self._process = CONTEXT.Process(target=_become, args=args)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self.poll()

    @property
    def output(self) -> str:
        """Its output so far."""
        return self._texts[0].read_text()

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        self._process.join(timeout)
        if self.poll() is None:
            self._process.kill()
            self._process.join()
            raise subprocess.TimeoutExpired(self.args, timeout)
        out, err = (path.read_text() for path in self._texts)
        for path in self._texts:
            path.unlink()
        return out, err


def run_forked(
    command: list[str], *arguments: str, cwd: Path, **env: str
) -> "subprocess.CompletedProcess[str]":
    process = Forked(command, *arguments, cwd=cwd, **env)
    out, err = process.communicate()
    assert process.returncode is not None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _become(
    command: list[str], cwd: Path, env: Mapping[str, str], texts: list[Path], group: bool
) -> None:
    """Turn the forked process into the command."""
    if group:
        os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for descriptor, text in enumerate(texts, start=1):
        os.dup2(os.open(text, os.O_WRONLY | os.O_APPEND), descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if command[0] == "-W":
        warnings.simplefilter(command[1])  # type: ignore[arg-type]
        command = command[2:]
    try:
        if command[0] == "-m":
            sys.argv = command[1:]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = command
            runpy.run_path(command[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # multiprocessing does not call them
