"""The commands of `omnigraph`, one module per command."""
