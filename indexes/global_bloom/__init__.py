"""The global bloom index."""
