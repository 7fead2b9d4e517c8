"""One check per file; `omnigraph.schema.check` runs them all. A check reports and never raises."""
