"""Errors, ids, limits, clock, failpoints and progress events: what every other package may use."""
