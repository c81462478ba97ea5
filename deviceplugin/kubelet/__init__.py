"""What is said to and read from the kubelet: registration, its checkpoint, its APIs, the node's pods."""
