"""Launchers and sweepers, where Hydra looks for them; the work is in focusing.sweep.

Hydra imports these modules for every command, ``--help`` too: they import what they need late. An
error here other than an ImportError would stop every Hydra app in the environment.
"""
