"""Many runs: random trials, and stacks of networks that train together."""
