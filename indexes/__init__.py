"""Implementations of `table.index.protocol.Index`."""
