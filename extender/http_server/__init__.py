"""HTTP: where the verbs are served, which clients may call them, and the form of requests."""
