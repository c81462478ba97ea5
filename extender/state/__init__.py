"""The cluster as the extender knows it, under one lock, and cached answers."""
