"""From a run to a network that can be used elsewhere: prune, export, predict."""
