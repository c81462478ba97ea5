"""The pods that are bound to this node, by our own watch: for kubelets without the Pods API (before 1.37)."""
