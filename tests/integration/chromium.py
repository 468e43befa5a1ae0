"""Operate a page in headless Chromium: a script inside the page does it and leaves what it saw."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOUND = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
needs_chromium = pytest.mark.skipif(FOUND is None, reason="Chromium is not installed")

HOOKS = """<script>
window.problems = [];
window.addEventListener("error", (event) => problems.push(`error: ${event.message}`), true);
window.addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
for (const level of ["error", "warn"]) console[level] = (...words) => problems.push(String(words));
document.addEventListener("securitypolicyviolation", (event) => problems.push(event.blockedURI));
</script>"""
OPERATE = """<script>
(async () => {
  const result = {};
  const all = (selector) => [...document.querySelectorAll(selector)];
  const visible = (selector) => all(selector).filter((element) => element.checkVisibility());
  const wait = (time) => new Promise((done) => setTimeout(done, time));
  try {
    %s
  } catch (error) { problems.push(String(error)); }
  const pre = document.createElement("pre");
  pre.id = "result";
  pre.textContent = JSON.stringify({...result, problems});
  document.body.append(pre);
})();
</script>"""


def operate(page: Path, script: str, scratch: Path, width: int = 1280) -> dict[str, Any]:
    """Run a script in a copy of a page beside it.

    Args:
        page: the page.
        script: JavaScript that sets entries of ``result``; ``all``, ``visible`` and ``wait`` help.
        scratch: folder for the browser's own files.
        width: of the window.

    Returns:
        ``result``, and under ``problems`` all errors.
    """
    content = page.read_text().replace("<head>", f"<head>{HOOKS}", 1)
    before, body, after = content.rpartition("</body>")
    copy = page.with_name(f"operated_{page.name}")
    copy.write_text(f"{before}{OPERATE % script}{body}{after}")
    try:
        document = dump(copy.as_uri(), scratch, width)
    finally:
        copy.unlink()
    [found] = re.findall(r'<pre id="result">(.*?)</pre>', document, re.DOTALL)
    return json.loads(html.unescape(found))  # type: ignore[no-any-return]


def dump(address: str, scratch: Path, width: int = 1280, seconds: int = 10) -> str:
    """The document after some (virtual) seconds; nothing may be written to the console."""
    done = chromium(
        address,
        scratch,
        f"--virtual-time-budget={1000 * seconds}",
        f"--window-size={width},1000",
        "--enable-logging=stderr",
        "--dump-dom",
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def chromium(address: str, scratch: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the browser once."""
    assert FOUND is not None
    common = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}"]
    return subprocess.run(
        [FOUND, *common, *options, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
