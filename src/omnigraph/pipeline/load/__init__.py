"""Load: reads, checks and stages input rows, in one commit."""
