"""Requests for shares of GPUs as other products spell them, translated when a pod is created. Pure."""
