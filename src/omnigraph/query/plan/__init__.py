"""The typed plan: values, expressions, operators and statements, and functions that walk them. Pure."""
