"""`omnigraph demo`: a generated company, the steps of the demo, and the failures that it shows."""
