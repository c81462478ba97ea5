"""The mutating webhook: it changes new pods that request GPUs, and removes our reserved keys from others."""
