"""Rows out of a specification, with and without Spark."""
