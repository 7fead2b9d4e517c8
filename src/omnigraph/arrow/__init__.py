"""Kernels over Arrow columns: buffers and masks, hashes, order, ULIDs. Independent of schemas and graphs."""
