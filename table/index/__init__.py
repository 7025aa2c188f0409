"""What the table needs of an index, and what indexes share with it."""
