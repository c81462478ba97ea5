"""Nodes without a node agent: the controller counts their GPUs, by their labels and their status."""
