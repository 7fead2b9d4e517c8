"""The checks of a schema: one subject per file, run by `run`. A check reports problems and never raises."""
