"""Predictions: which index for a table that nobody has measured, and what it will cost."""
