"""The specs of Keymark's own indexes."""
