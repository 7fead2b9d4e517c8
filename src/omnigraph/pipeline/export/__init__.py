"""Export: writes the rows of a snapshot to files, in the same order wherever it runs."""
