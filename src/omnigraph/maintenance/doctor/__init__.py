"""Doctor: checks a graph, and names the command that fixes each problem. Writes nothing."""
