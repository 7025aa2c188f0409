"""Specifications of datasets."""
