"""The tables under test as the harness sees them: where they are, copies, and what is in them."""
