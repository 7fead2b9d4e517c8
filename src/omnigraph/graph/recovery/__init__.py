"""Recovery completes or undoes the writes of stopped processes, and fences off writers that may still run."""
