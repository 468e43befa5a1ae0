"""A process that has imported torch and Lightning, which takes seconds: others fork from it."""

import multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["focusing.run", "focusing.sweep.local"])
