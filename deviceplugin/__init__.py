"""The node agent: the node's GPUs, seen through NVML, handed to the kubelet and told to the cluster."""
