"""Queries on Spark: compiles a plan to DataFrames and runs it."""
