"""The bloom index."""
