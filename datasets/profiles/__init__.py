"""Statistics of a table's keys, and specifications that look like them."""
