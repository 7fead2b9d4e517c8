"""Arrow kernels: buffers and masks, hashes, order, ULIDs. Knows no schema and no graph."""
