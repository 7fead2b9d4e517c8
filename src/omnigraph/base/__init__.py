"""Errors, ids, limits, clock, failpoints and progress events: what every other room may use."""
