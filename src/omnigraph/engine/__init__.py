"""Runs query plans in the process."""
