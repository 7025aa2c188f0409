"""Where a table's files are: local disk, object stores, HDFS, and the lease of the one writer."""
