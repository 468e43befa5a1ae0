"""Sweepers of focusing."""
