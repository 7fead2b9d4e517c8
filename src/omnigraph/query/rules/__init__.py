"""The rewrite rules: each takes a relation and the facts, and gives one with the same rows and the same columns."""
