"""Run folders: their lines and documents, on disk or on an object store."""
