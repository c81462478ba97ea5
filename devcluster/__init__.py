"""A real Kubernetes on one machine with simulated GPUs: a developer tool that is never shipped."""
