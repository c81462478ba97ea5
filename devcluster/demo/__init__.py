"""The story that ``make run`` plays on a real cluster, one line per thing that happens."""
