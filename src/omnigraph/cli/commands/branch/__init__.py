"""`omnigraph branch`: one module per command."""
