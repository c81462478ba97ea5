"""The node's GPUs as NVML sees them: interface, real adapter, inventory, health, the thread that watches."""
