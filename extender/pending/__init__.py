"""Pods that wait: why they do, and when kube-scheduler should try them again."""
