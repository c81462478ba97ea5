"""Data on the Node besides the inventory: labels, Events, orders about devices."""
