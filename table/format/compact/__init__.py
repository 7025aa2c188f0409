"""Compact index files: hashes of keys and the file groups that may hold them, 7 bytes each."""
