"""The experiments of the paper: their list and cost, and the stacked trials of Table 1."""
