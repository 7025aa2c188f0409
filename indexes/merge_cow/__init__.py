"""Iceberg's MERGE that rewrites the files of changed rows."""
