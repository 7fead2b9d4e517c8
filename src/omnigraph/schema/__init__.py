"""Schema text → syntax tree → `Catalog`, and the Arrow schemas and indexes of a catalog. Does no I/O."""
