"""The command line `omnigraph`: one file per command, loaded when it is asked for."""
