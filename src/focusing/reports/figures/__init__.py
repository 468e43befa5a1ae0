"""Figures of many runs: the paper's and more."""
