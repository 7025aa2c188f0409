"""Scenarios into measured, verified results in a run folder."""
