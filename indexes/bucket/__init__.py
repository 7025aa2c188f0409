"""The bucket index."""
