"""Graphs over HTTP."""
