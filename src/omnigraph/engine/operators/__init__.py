"""The operators of a plan: scan, join, aggregate, order, search."""
