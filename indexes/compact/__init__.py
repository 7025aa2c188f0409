"""The compact index."""
