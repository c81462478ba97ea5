"""The daemons of a cluster: one module each, with its command line and its configuration."""
