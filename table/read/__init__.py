"""Snapshots and pruning."""
