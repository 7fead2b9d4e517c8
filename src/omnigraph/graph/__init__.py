"""Manifest, snapshots and the write path."""
