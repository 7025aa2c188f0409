"""What is measured beside wall time: event logs, counters, the machine's noise."""
