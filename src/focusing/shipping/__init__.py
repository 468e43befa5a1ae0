"""Use trained networks: prune, export, predict."""
