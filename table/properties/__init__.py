"""What a table is and how it is written: hoodie.properties, its seal, options."""
