"""Manifest, snapshots, the write path, leases, recovery, branches, merge and diff. Imports no Spark."""
