"""Fills the vectors of a graph from its texts, in waves: one commit each."""
