"""What ``pod_evictor`` is made of: what is known of comebacks, and each call to the API server."""
