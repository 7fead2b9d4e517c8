"""The type checker: every mistake of a query is found here, and what has none becomes typed expressions and plans."""
