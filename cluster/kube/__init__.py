"""Access to the API server: no other code speaks HTTP to it."""
