"""From a plan to a bound pod: devices are kept, victims notified and evicted, the bind awaited."""
