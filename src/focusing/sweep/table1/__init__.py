"""Table 1: random trials, trained in stacks."""
