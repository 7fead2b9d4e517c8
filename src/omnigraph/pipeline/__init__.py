"""Spark session, load and export."""
