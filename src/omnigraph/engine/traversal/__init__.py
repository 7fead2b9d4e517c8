"""Traversals: adjacency, walks and expands."""
