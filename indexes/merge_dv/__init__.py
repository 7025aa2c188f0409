"""Delta's MERGE that marks changed rows in deletion vectors."""
