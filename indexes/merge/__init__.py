"""A mode of engines of other formats: rows are found by a join with the table."""
