"""`omnigraph schema`: one module per command."""
