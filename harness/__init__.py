"""Scenarios to measured, verified results in a run folder.

The path: `scenario` -> `matrix` -> `runner` -> (`cell`, `workload`, `verify`) -> `store`.
`results`, `units`, `redaction` and `store` are leaf modules: the only ones that `reports` imports.
"""
