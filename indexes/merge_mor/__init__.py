"""Iceberg's MERGE that names changed rows in delete files."""
