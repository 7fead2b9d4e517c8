"""Lance datasets: read, stage, commit, compact, index, delete. The only importer of `lance`."""
