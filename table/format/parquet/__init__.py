"""Parquet files: writing and reading, footers, pages, checksums."""
