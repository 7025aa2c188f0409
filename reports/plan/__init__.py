"""Predictions: which index for a table that was not measured, and what it will cost."""
