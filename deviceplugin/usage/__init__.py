"""The use of each device: by which pods and processes, and how much."""
