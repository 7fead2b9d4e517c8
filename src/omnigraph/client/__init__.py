"""A graph through one interface, in this process or behind a server."""
