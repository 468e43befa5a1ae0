"""train.py in a process that may not write files of more than a page."""

import resource
import runpy

from tests.integration.commands import ROOT

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
