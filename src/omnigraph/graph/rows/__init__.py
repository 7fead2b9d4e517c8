"""Rows of nodes and edges: by id, as text, and as the difference of two versions."""
