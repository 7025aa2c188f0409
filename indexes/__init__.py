"""Implementations of `table.write.index.Index`."""
