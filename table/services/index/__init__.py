"""Building, switching and dropping metadata partitions."""
