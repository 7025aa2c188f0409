"""Run folders into statistics, tables, charts and pages."""
