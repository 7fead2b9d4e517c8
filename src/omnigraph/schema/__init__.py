"""`.pg` text to syntax tree to Catalog, and what follows from a catalog: Arrow schemas and index kinds."""
