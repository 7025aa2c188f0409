"""Instants: names, commit metadata, state transitions."""
