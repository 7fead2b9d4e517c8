"""Bulk work as tasks of a runner: load, export, the Spark data source and queries on Spark."""
