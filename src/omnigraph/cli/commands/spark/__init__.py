"""`omnigraph spark`: one module per command."""
