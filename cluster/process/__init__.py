"""The base of every process of ours: clock, life cycle, settings, logs, metrics."""
