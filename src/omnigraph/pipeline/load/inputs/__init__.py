"""Input files and frames of a load, cut into pieces that tasks read."""
