"""The HBase index."""
