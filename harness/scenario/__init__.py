"""Scenario files: checked, resolved, and turned into cells."""
