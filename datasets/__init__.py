"""Rows as a pure function of (seed, row number), and the truth about them."""
