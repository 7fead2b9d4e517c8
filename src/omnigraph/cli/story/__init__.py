"""The story that `omnigraph demo` tells: a made-up company, the scenes, and the accidents that happen in them."""
