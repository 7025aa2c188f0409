"""The kinds of column."""
