"""Rows, keys and change streams as functions of (seed, row number), and the truth about them."""
