"""Hudi's bloom filters."""
