"""Statistics: medians and intervals, growth, the lookup model, noise."""
