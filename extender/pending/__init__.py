"""Pods that wait: why, and when kube-scheduler is to try them again."""
