"""Where jobs run: processes of this machine, SLURM, Ray."""
