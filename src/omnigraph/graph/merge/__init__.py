"""Three-way merge by entity: which rows of a branch are merged into another, and where both sides changed."""
