"""Runs scripts inside pages in headless Chromium."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

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
    """Run a script in a copy of a page, in the same folder.

    Args:
        page: the page.
        script: JavaScript that sets entries of ``result``; it may use ``all``, ``visible`` and
            ``wait``.
        scratch: folder for the files of the browser.
        width: of the window.

    Returns:
        ``result``, with all errors in ``problems``.
    """
    content = page.read_text().replace("<head>", f"<head>{HOOKS}", 1)
    before, body, after = content.rpartition("</body>")
    copy = page.with_name(f"operated_{page.name}")
    copy.write_text(f"{before}{OPERATE % script}{body}{after}")
    try:
        document = dump(copy.as_uri(), scratch, width)
    finally:
        copy.unlink()
    [result] = re.findall(r'<pre id="result">(.*?)</pre>', document, re.DOTALL)
    return json.loads(html.unescape(result))  # type: ignore[no-any-return]


def dump(address: str, scratch: Path, width: int = 1280, seconds: int = 10) -> str:
    """Return the document after some virtual seconds; fails if the console is not empty."""
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
    assert CHROMIUM is not None
    common = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}"]
    return subprocess.run(
        [CHROMIUM, *common, *options, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
