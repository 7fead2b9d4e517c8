"""Conversion and validation rules over Arrow batches, shared by load, mutate, merge and schema apply. Does no I/O."""
