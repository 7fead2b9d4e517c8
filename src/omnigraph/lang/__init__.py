"""What the schema language and the query language share: spans, literals, problems, parsing."""
