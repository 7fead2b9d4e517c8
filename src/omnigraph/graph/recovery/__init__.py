"""Recovery: finishes or undoes writes that did not end, and fences off the writers that may still wake up."""
