"""Hashes and checksums: those of Hudi's formats, and the digest of entries."""
