"""Runs query plans in the process. Imports no Spark."""
