"""Which base files hold a value: of a column with a secondary index, or a record key."""
