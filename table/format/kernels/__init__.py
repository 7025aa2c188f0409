"""Compiled loops over batches: sorting, partitioning, interning and searching texts."""
