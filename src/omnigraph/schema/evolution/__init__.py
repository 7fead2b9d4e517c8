"""From an accepted catalog and a desired one to ordered steps, and from steps to the next catalog. Pure."""
