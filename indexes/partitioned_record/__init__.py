"""Hudi's record index of each partition; Keymark has none."""
