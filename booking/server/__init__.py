"""The booking server."""
