"""Spark sessions, executors, jobs and the warm server."""
