"""The simple index."""
