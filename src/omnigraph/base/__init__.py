"""Errors, hints, ids, limits, the clock, processes, failpoints and progress events, for every other package."""
