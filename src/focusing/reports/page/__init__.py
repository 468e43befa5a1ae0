"""The page of a report: ``index.html`` and one page per run, readable without a network."""

from focusing.reports.page.site import write_page

__all__ = ["write_page"]
