"""What a Hudi table of any version is made of and what happened to it, read in place."""
