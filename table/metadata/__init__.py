"""The metadata table: records, partitions, reader, writer."""
