"""Access to the API server: the only code that speaks HTTP to it."""
