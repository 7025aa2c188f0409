"""The record index of each partition."""
