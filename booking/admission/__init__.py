"""The mutating webhook: what becomes of new pods that ask for GPUs or carry keys that are ours alone."""
