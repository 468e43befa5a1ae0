"""The experiments of the paper: what there is, what it costs, and the stacked trials of Table 1."""
