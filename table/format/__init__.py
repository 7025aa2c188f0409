"""Bytes <-> values; knows no file system and no Spark."""
