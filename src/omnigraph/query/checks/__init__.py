"""The type checker: reports every error of a query, and turns a query without errors into a typed plan."""
