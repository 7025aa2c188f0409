"""Services on a table: check, rollback."""
