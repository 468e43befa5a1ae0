"""The experiment: how a network is trained, watched, stopped and continued."""
