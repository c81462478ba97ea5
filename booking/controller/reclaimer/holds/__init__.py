"""From a plan to a bound pod: devices are reserved, victims notified and evicted, the bind awaited."""
