"""What several indexes have in common."""
