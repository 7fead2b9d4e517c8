"""`omnigraph branch`: one file per command."""
