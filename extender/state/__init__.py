"""The cluster as the extender knows it, under one lock, and answers that stay valid for a while."""
