"""Runs that are published under `results/`: checked, added, and where they come from."""
