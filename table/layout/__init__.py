"""The values a table is made of, the names of its files, and what a reader sees of them."""
