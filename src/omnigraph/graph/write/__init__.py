"""The one write path: staged, checked, armed, committed, published. Nothing else moves the head of a branch."""
