"""`omnigraph commit`: one file per command."""
