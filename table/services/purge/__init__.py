"""Erasing keys from all that a table keeps, and the proof of it."""
