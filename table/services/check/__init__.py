"""`table check`: what files, index and timeline say, compared."""
