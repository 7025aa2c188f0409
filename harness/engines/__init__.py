"""What a scenario can measure: one module per engine."""
