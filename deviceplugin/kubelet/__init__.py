"""All contact with the kubelet: registration, its checkpoint, its APIs, the node's pods."""
