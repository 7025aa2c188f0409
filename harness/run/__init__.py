"""One run: its inputs, its repetitions, the steps of each, and their verification."""
