"""The page of a report: ``index.html`` and one page per run, readable without a network."""
