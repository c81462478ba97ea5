"""The node's GPUs as NVML sees them: port, real adapter, inventory, health, and the thread that watches."""
