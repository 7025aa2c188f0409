"""Engines without Spark: Python libraries of other formats, each in an environment of its own."""
