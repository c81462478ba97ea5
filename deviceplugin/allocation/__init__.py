"""Which pod is being admitted, and which devices it gets. Pure."""
