"""Which rows a round of changes touches."""
