"""Three-way merge by entity: which rows of a branch go into another, and where both sides changed the same.

The way through this folder: `bases` finds what the sides have in common, `schemas` what becomes of the schema,
`candidates` the rows to look at; `decide` is the pure heart, `table_plan` decides about one table, `plan` puts a whole
graph together, `rules` checks it, `resolve` applies choices, `stage` and `stage_schema` use the write path, `run`
is the operation. Reverting a commit is the same with other sides.
"""
