"""Partitions of the metadata table, built from the base files of a table that has rows already."""
