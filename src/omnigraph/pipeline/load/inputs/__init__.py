"""The inputs of a load, divided into pieces that tasks read."""
