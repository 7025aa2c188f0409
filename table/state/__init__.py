"""One consistent reading of a table, and the base files that it shows."""
