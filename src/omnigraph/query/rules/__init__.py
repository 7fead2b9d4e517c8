"""The rewrite rules: each takes a relation and facts, and returns one with the same rows. `run` has their order."""
