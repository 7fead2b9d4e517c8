"""Omnigraph: a versioned graph database on open Lance files."""

__version__ = "0.1.0"
