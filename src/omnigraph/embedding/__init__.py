"""Providers of vectors."""
