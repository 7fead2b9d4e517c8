"""Request and response documents: what `--json` prints and HTTP sends."""
