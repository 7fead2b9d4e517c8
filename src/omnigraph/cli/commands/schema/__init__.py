"""`omnigraph schema`: one file per command."""
