"""Which GPUs of a node belong together, by their links: for pods for which nobody has decided."""
