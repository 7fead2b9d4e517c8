"""Three-way merge by entity: which rows of one branch are merged into another, and where both sides changed."""
