"""What every process of ours is made of: clock, life cycle, settings, logs, metrics."""
