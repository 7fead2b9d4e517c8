"""The command line `omnigraph`. A command imports heavy libraries inside its function."""
