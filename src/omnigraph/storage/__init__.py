"""Objects and Lance datasets; the only importer of lance and obstore; knows nothing of graphs."""
