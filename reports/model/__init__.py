"""What a run folder says, ready to be put into words."""
