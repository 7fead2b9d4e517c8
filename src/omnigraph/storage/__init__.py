"""Locations, objects and files of a local disk or an object store. Knows nothing of graphs."""
