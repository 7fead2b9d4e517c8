"""Optimize, repair, cleanup, doctor."""
