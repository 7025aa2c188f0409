"""Many runs in their order: where a number changed for good."""
