"""Values, tables and charts for readers."""
