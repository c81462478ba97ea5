"""The node agent: serves the node's GPUs, read from NVML, to the kubelet and publishes them."""
