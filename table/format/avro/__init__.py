"""Avro records and columns."""
