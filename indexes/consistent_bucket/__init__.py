"""Hudi's bucket index whose buckets grow; Keymark has none."""
