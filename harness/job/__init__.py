"""A job of the user's own, measured: commands, what they write, the event logs that they leave."""
