"""The write path: keys, assignment, file groups, commit."""
