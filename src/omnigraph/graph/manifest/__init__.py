"""The dataset `__manifest`: its rows, how they are read, and how a change is published."""
