"""Records on W&B: runs, a dashboard."""
