"""The gate: a base and a candidate compared, metric by metric, into one of three verdicts."""
