"""The Python surface: `init`, `open` and `Graph`."""
