"""`omnigraph spark`: one file per command."""
