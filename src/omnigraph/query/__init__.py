"""`.gq` text to typed plan."""
