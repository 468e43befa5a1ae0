"""HTML pages of a report: ``index.html`` and one page per run."""
