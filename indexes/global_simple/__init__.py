"""The global simple index."""
