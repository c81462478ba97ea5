"""The parts of ``pod_evictor``: the cache of comebacks, and each call to the API server."""
