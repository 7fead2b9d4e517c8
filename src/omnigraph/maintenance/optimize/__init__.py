"""Optimize: rewrites small and deleted fragments and builds indexes, next to live writers."""
