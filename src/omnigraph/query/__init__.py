"""Query text to syntax tree to typed plan, and what is known about a query without running it. Does no I/O."""
