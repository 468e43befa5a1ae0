"""Records of runs: writing, reading, collecting and statistics."""
