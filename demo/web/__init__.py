"""The demo in a browser: the booking server's own application, and a bar above its pages."""
