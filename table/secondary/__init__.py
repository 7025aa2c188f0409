"""Secondary indexes: which base files hold the values of a column."""
