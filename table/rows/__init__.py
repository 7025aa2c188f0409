"""Rows and keys as users hand them in."""
