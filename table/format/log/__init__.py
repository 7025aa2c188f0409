"""Log files of the metadata table: blocks with headers."""
