"""GPUs that are cut into MIG devices: under which names these are given, by which nodes, and which first."""
