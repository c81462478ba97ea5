"""Pure decisions over objects: no I/O, no clock, no threads, no Kubernetes client."""
