"""What a process brings: clock, chance, Java, Spark, compiled kernels, a progress bar."""
