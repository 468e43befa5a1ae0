"""Figures of a report, over many runs."""
