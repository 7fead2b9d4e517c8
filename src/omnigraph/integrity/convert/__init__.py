"""Conversion of raw input columns to the type of a property."""
