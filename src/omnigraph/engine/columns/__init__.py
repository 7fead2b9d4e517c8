"""Columns of rows in memory, and expressions over them."""
