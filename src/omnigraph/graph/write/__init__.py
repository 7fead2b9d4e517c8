"""The one write path: staged, armed, committed, published. Nothing else moves the head of a branch."""
