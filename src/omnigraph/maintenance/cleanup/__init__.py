"""Cleanup: deletes the versions and files that no retained version references."""
