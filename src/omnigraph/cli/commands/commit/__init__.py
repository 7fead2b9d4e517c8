"""`omnigraph commit`: one module per command."""
