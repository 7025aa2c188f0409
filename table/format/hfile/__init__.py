"""HFile version 3, as the metadata table holds it."""
