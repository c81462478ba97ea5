"""From a plan to a bound pod: devices are kept, victims told and evicted, the bind awaited."""
