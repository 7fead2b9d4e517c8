"""Queries on Spark: a plan compiled to DataFrames."""
