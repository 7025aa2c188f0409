"""A mode of engines of other formats: the library's own call that updates and inserts."""
