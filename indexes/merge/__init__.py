"""A merge of Delta's that rewrites the files of changed rows."""
