"""Many runs: sweeps on this machine or a cluster, and hyperparameter searches."""
