"""Schema text to syntax tree to `Catalog`, and what follows from a catalog: Arrow schemas and indexes. Does no I/O."""
