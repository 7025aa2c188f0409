"""Apache Hudi tables: formats, timeline, metadata table, transaction, reader, writer."""
