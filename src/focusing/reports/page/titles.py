"""Titles without what goes without saying."""

from __future__ import annotations

import re


def short_title(title: str) -> str:
    """``Table 2 (size=paper, variant=author)`` without the size: it is the paper's."""
    title = re.sub(r"(?<=\(|\s)(size|variant)=paper(,\s*|(?=\)))", "", title)
    return re.sub(r",?\s*\(?\s*\)", lambda end: ")" if "(" not in end[0] else "", title)
