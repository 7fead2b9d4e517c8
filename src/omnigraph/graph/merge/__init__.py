"""Three-way merge by entity: which rows of a branch go into another, and where both sides changed the same.

The way through this room: `bases` finds what the sides have in common, `images` reads rows by id, `decide` is the pure
heart, `plan` puts a whole graph together and checks it, `resolve` applies choices, `stage` writes through the write
path, `run` is the operation. Reverting a commit is the same with other sides.
"""
